"""CUDA devices: those that a driver has.  Without one questions are answered so, and what would need a device refuses.
"""
from .._src.compat.absent import absent
from .._src.compat.devices import device_module
from .._src import streams as _streams
from .._src.core.devices import device as _device, provided as _provided
from .._src.core.errors import NoDeviceError, OutOfMemoryError  # noqa: F401 - the error is one for all devices
from .._src.legacy import BY_TYPE

globals().update(device_module("cuda"))
WHY = "this build runs on the CPU, and torch.cuda.is_available() is False"
MORE = ("ExternalStream CUDAGraph graph CUDAPluggableAllocator GreenContext get_allocator_backend get_sync_debug_mode "
        "set_sync_debug_mode list_gpu_processes cudart "
        "current_blas_handle current_solver_handle caching_allocator_alloc caching_allocator_delete "
        "caching_allocator_enable")
globals().update(absent("torch.cuda", WHY, f"{MORE} {' '.join(BY_TYPE)}", NoDeviceError))
has_half = has_magma = False
AcceleratorError = CudaError = DeferredCudaCallError = NoDeviceError


def _lazy_init():
    raise NoDeviceError(f"Torch not compiled with CUDA enabled: {WHY}", "torch.cuda.is_available()", "use the CPU")


def _lazy_call(callable, **kwargs):
    """Refuses to wait: there is no device that will be initialised."""


def _provider():
    """What provides the devices; NoDeviceError where nothing does."""
    found = _provided("cuda")
    if found is None:
        raise NoDeviceError(f"torch.cuda exists here only as a name (Torch not compiled with CUDA enabled): {WHY}",
                            "torch.cuda.is_available()", "use the CPU")
    return found


def _index(device=None) -> int:
    """The index of a device: an int, a device or its name; None: the current one."""
    found = _provider()
    where = device if device is None or isinstance(device, int) else _device(device).index
    return found.current() if where is None else where


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
    """Its ``name``, ``total_memory`` in bytes and ``multi_processor_count``."""
    return _provider().properties(_index(device))


def get_device_name(device=None) -> str:
    """What the driver calls a device."""
    return get_device_properties(device).name


def get_device_capability(device=None) -> tuple:
    """(major, minor) of a GPU of NVIDIA."""
    return _provider().capability(_index(device))


def mem_get_info(device=None) -> tuple:
    """(free, total) bytes of a device."""
    return _provider().memory(_index(device))


def _statistic(name: str, device=None) -> int:
    found = _provided("cuda")
    return 0 if found is None else found.statistics(_index(device)).get(name, 0)


def memory_allocated(device=None) -> int:
    """Bytes of tensors."""
    return _statistic("allocated", device)


def max_memory_allocated(device=None) -> int:
    """The most bytes of tensors that there were."""
    return _statistic("most_allocated", device)


def memory_reserved(device=None) -> int:
    """Bytes that the driver has given, those kept for later among them."""
    return _statistic("reserved", device)


def max_memory_reserved(device=None) -> int:
    """The most bytes that the driver has given."""
    return _statistic("most_reserved", device)


def reset_peak_memory_stats(device=None):
    """The most is counted from here on."""
    if _provided("cuda") is not None:
        _provider().reset_statistics(_index(device))


def empty_cache():
    """Gives memory that is kept for later back to the driver."""
    for index in range(device_count()):
        _provider().trim(index)


class Stream(_streams.Stream):
    """A queue of a GPU's work, done in order."""

    def __init__(self, device=None, priority=0, **kwargs):
        super().__init__(_device("cuda", _index(device)), priority=priority, **kwargs)


class Event(_streams.Event):
    """A place in the work of a stream."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
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


device_of = device


def stream(stream):
    """A block on another stream; None, the stream there is, changes nothing."""
    return device(None) if stream is None else stream
