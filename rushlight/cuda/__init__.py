"""CUDA devices: those that a driver has.  Without one questions are answered so, and what would need a device refuses.
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
    """Looks for devices; NoDeviceError where there are none."""
    if not is_available():
        raise NoDeviceError(f"Torch not compiled with CUDA enabled: {WHY}", "torch.cuda.is_available()", "use the CPU")


init = _lazy_init


def _lazy_call(callable, **kwargs):
    """Calls a function where there are devices, which are ready from the start."""
    if is_available():
        callable()


_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode):
    """What happens where the host waits for a copy, as ``item()`` and ``cpu()`` do: nothing ("default", or 0), a
    warning ("warn", 1) or RuntimeError ("error", 2).  NoDeviceError where there is no GPU."""
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError("invalid value of debug_mode, expected 0,1,2")
    _provider().driver.waiting = _MODES[debug_mode]


def get_sync_debug_mode() -> int:
    """The number of the mode that ``set_sync_debug_mode`` has set.  NoDeviceError where there is no GPU."""
    return _MODES.index(_provider().driver.waiting)


def is_initialized() -> bool:
    """Whether there are devices, which are ready from the start."""
    return is_available()


def is_bf16_supported(including_emulation=True) -> bool:
    """Whether a GPU computes in bfloat16: NVIDIA's from sm_80 on, AMD's that are known here; others by conversions."""
    if not is_available():
        return False
    return including_emulation or _provider().driver.vendor.kind == "hip" or get_device_capability()[0] >= 8


def is_tf32_supported() -> bool:
    """Whether units for products of the current GPU multiply tf32: NVIDIA's from sm_80 on, and gfx942."""
    if not is_available():
        return False
    if _provider().driver.vendor.kind == "hip":
        return get_device_properties().gcnArchName == "gfx942"
    return get_device_capability()[0] >= 8


def get_arch_list() -> list:
    """The architectures of the devices, for which kernels are compiled when they are first needed."""
    found = _provided("cuda")
    return [] if found is None else sorted({found.driver.architecture(k) for k in range(found.count())})


def can_device_access_peer(device, peer_device) -> bool:
    """Whether a GPU reads the memory of another one."""
    return _provider().driver.reaches(_index(device), _index(peer_device))


def device_count() -> int:
    """How many GPUs there are."""
    found = _provided("cuda")
    return 0 if found is None else found.count()


def is_available() -> bool:
    """Whether there is a GPU."""
    return device_count() > 0


def current_device() -> int:
    """The index of the device that is meant where none is named."""
    return _index()


def set_device(device):
    """Another device is meant where none is named; a negative index changes nothing."""
    index = _index(device)
    if index >= 0:
        _provider().set_current(index)


def synchronize(device=None):
    """Waits until a device has done all that it was given."""
    _provider().synchronize(_index(device))


def get_device_properties(device=None):
    """Its ``name``, ``total_memory`` in bytes, ``multi_processor_count``, ``major``, ``minor`` and ``warp_size``; of
    NVIDIA's GPUs also PyTorch's names for caches, registers, shared memory, threads, clocks and places on the bus; of
    AMD's ``gcnArchName``."""
    return _provider().properties(_index(device))


def get_device_name(device=None) -> str:
    """What the driver calls a device."""
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
    """A place in the work of a stream."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        _accept_only("torch.cuda.Event", "record it outside of the graph", external=(external, False))
        super().__init__(_device("cuda", _index()), enable_timing=enable_timing, blocking=blocking,
                         interprocess=interprocess)


def default_stream(device=None) -> Stream:
    """The first stream of a device."""
    return Stream(device, stream_id=0)


def current_stream(device=None) -> Stream:
    """The stream to which the calling thread gives work."""
    index = _index(device)
    return Stream(index, stream_id=_provider().streams(index).current())


class device:
    """A block in which another device is meant where none is named; None or -1 change nothing."""

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
    """A block in which the device of a tensor or storage is meant where none is named; one of the host's changes
    nothing."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def set_stream(stream):
    """The thread gives its work to this stream from now on; None changes nothing."""
    if stream is not None:
        _streams.set_stream(stream)


def stream_given(data_ptr, device=None) -> "ExternalStream":
    """A stream of another library, by the driver's handle."""
    return ExternalStream(data_ptr, device)


class ExternalStream(Stream):
    """A stream that another library has made, by the driver's handle; that library keeps it."""

    def __init__(self, stream_ptr, device=None, **kwargs):
        super().__init__(device, stream_id=int(stream_ptr), **kwargs)


get_stream_from_external = stream_given
Stream.cuda_stream = property(lambda self: self.stream_id, doc="The driver's handle.")


StreamContext = _streams.StreamContext


def stream(stream):
    """A block on another stream; None, the stream there is, changes nothing."""
    return StreamContext(stream)


from .memory import *  # noqa: E402, F401, F403 - after what it replaces
from .memory import device_memory_used  # noqa: E402, F401
from .random import *  # noqa: E402, F401, F403
from .random import default_generators  # noqa: E402, F401
from .graphs import *  # noqa: E402, F401, F403
from .sensors import *  # noqa: E402, F401, F403
