"""CUDA devices of the driver.  Without one, queries return defaults, and functions that need a device raise.
"""
from .._src.compat.absent import absent, reason as _reason
from .._src.compat.devices import device_module
from .._src import streams as _streams
from .._src.core.devices import device as _device, provided as _provided
from .._src.core.errors import AcceleratorError, NoDeviceError, OutOfMemoryError  # noqa: F401 - one for all devices
from .._src.core.options import accept_only as _accept_only
from .places import WHY, index_of as _index, provider_of as _provider
from .._src.legacy import BY_TYPE, type_of_tensors as _type_of_tensors

globals().update(device_module("cuda"))
MORE = "GreenContext cudart current_blas_handle current_solver_handle"
_TENSORS, _STORAGES = ([n for n in BY_TYPE if n.endswith(kind)] for kind in ("Tensor", "Storage"))
globals().update(absent("torch.cuda", _reason("cuda")[1], f"{MORE} {' '.join(_STORAGES)}", NoDeviceError))
globals().update({_name: _type_of_tensors(_name, "cuda") for _name in _TENSORS})
has_half = has_magma = False
CudaError, DeferredCudaCallError = AcceleratorError, NoDeviceError


def _lazy_init():
    """Initialize devices; NoDeviceError if there are none."""
    if not is_available():
        raise NoDeviceError(f"Torch not compiled with CUDA enabled: {WHY}", "torch.cuda.is_available()", "use the CPU")


init = _lazy_init


def _lazy_call(callable, **kwargs):
    """Call a function if there are devices, which are ready from the start."""
    if is_available():
        callable()


_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode):
    """Set the reaction to synchronizing copies such as ``item()`` and ``cpu()``: nothing ("default", or 0), a warning
    ("warn", 1) or RuntimeError ("error", 2).  NoDeviceError if there is no GPU."""
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError("invalid value of debug_mode, expected 0,1,2")
    _provider().driver.waiting = _MODES[debug_mode]


def get_sync_debug_mode() -> int:
    """Return the number of the mode that ``set_sync_debug_mode`` has set.  NoDeviceError if there is no GPU."""
    return _MODES.index(_provider().driver.waiting)


def is_initialized() -> bool:
    """True if there are devices, which are ready from the start."""
    return is_available()


def is_bf16_supported(including_emulation=True) -> bool:
    """True if a GPU computes in bfloat16: NVIDIA's from sm_80 on, supported ones of AMD; others by conversions."""
    if not is_available():
        return False
    return including_emulation or _provider().driver.vendor.kind == "hip" or get_device_capability()[0] >= 8


def is_tf32_supported() -> bool:
    """True if the current GPU has tf32 matrix units: NVIDIA's from sm_80 on, and gfx942."""
    if not is_available():
        return False
    if _provider().driver.vendor.kind == "hip":
        return get_device_properties().gcnArchName == "gfx942"
    return get_device_capability()[0] >= 8


def get_arch_list() -> list:
    """Return the architectures of the devices; kernels are compiled for them at first use."""
    found = _provided("cuda")
    return [] if found is None else sorted({found.driver.architecture(k) for k in range(found.count())})


def can_device_access_peer(device, peer_device) -> bool:
    """True if a GPU can access the memory of another one."""
    return _provider().driver.reaches(_index(device), _index(peer_device))


def device_count() -> int:
    """Return the number of GPUs."""
    found = _provided("cuda")
    return 0 if found is None else found.count()


def is_available() -> bool:
    """True if there is a GPU."""
    return device_count() > 0


def current_device() -> int:
    """Return the index of the current device."""
    return _index()


def set_device(device):
    """Set the current device; a negative index changes nothing."""
    index = _index(device)
    if index >= 0:
        _provider().set_current(index)


def synchronize(device=None):
    """Wait until a device has done all submitted work."""
    _provider().synchronize(_index(device))


def get_device_properties(device=None):
    """Its ``name``, ``total_memory`` in bytes, ``multi_processor_count``, ``major``, ``minor`` and ``warp_size``; of
    NVIDIA's GPUs also PyTorch's names for caches, registers, shared memory, threads, clocks and places on the bus; of
    AMD's ``gcnArchName``."""
    return _provider().properties(_index(device))


def get_device_name(device=None) -> str:
    """Return the driver's name of a device."""
    return get_device_properties(device).name


def get_device_capability(device=None) -> tuple:
    """(major, minor) of a GPU of NVIDIA."""
    return _provider().capability(_index(device))


class Stream(_streams.Stream):
    """A queue of a GPU's work, done in order."""

    def __init__(self, device=None, priority=0, **kwargs):
        super().__init__(_device("cuda", _index(device)), priority=priority, **kwargs)

    @staticmethod
    def priority_range() -> tuple:
        """(the number of the lowest priority, that of the highest) of the current GPU."""
        return _provider().streams(_index()).priorities()

    @property
    def _as_parameter_(self):
        import ctypes
        return ctypes.c_void_p(self.stream_id)


class Event(_streams.Event):
    """An event in the work of a stream."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        _accept_only("torch.cuda.Event", "record it outside of the graph", external=(external, False))
        super().__init__(_device("cuda", _index()), enable_timing=enable_timing, blocking=blocking,
                         interprocess=interprocess)


def default_stream(device=None) -> Stream:
    """The first stream of a device."""
    return Stream(device, stream_id=0)


def current_stream(device=None) -> Stream:
    """Return the current stream of the calling thread."""
    index = _index(device)
    return Stream(index, stream_id=_provider().streams(index).current())


class device:
    """Context manager that sets the current device; None or -1 change nothing."""

    def __init__(self, device):
        self.index = device.index if isinstance(device, _device) else device
        if self.index not in (None, -1):
            self.index = _index(self.index)

    def __enter__(self):
        if self.index not in (None, -1):
            self.outer = current_device()
            set_device(self.index)
        return self

    def __exit__(self, *exception):
        if self.index not in (None, -1):
            set_device(self.outer)
        return False


class device_of(device):
    """Context manager that sets the current device to that of a tensor or storage; one on the CPU changes nothing."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def set_stream(stream):
    """Set the current stream of the thread; None changes nothing."""
    if stream is not None:
        _streams.set_stream(stream)


def stream_given(data_ptr, device=None) -> "ExternalStream":
    """A stream of another library, by the driver's handle."""
    return ExternalStream(data_ptr, device)


class ExternalStream(Stream):
    """A stream that another library has created and owns, by the driver's handle."""

    def __init__(self, stream_ptr, device=None, **kwargs):
        super().__init__(device, stream_id=int(stream_ptr), **kwargs)


get_stream_from_external = stream_given
Stream.cuda_stream = property(lambda self: self.stream_id, doc="The driver's handle.")


StreamContext = _streams.StreamContext


def stream(stream):
    """Context manager that sets the current stream; None changes nothing."""
    return StreamContext(stream)


from .memory import *  # noqa: E402, F401, F403 - after what it replaces
from .memory import device_memory_used  # noqa: E402, F401
from .random import *  # noqa: E402, F401, F403
from .random import default_generators  # noqa: E402, F401
from .graphs import *  # noqa: E402, F401, F403
from .sensors import *  # noqa: E402, F401, F403
