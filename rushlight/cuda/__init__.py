"""CUDA devices: none here.  Questions are answered so; what would need a device refuses."""
from .._src.compat.absent import absent
from .._src.compat.devices import device_module
from .._src.core.devices import device as _device
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


class device:
    """``with torch.cuda.device(None or -1)`` does nothing; any other index refuses."""

    def __init__(self, device):
        self.index = device.index if isinstance(device, _device) else device
        if self.index not in (None, -1):
            _lazy_init()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False


device_of = device


def stream(stream):
    """A block on another stream; None, the stream there is, changes nothing."""
    if stream is not None:
        _lazy_init()
    return device(None)
