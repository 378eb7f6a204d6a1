"""Provider and device of a call of ``torch.cuda``."""
from __future__ import annotations

from .._src.compat.absent import COMING
from .._src.core.devices import device as _device, provided
from .._src.core.errors import NoDeviceError

WHY = f"torch.cuda.is_available() is False; {COMING['cuda']}"


def provider_of():
    """Return the Provider of GPUs; NoDeviceError if there is none."""
    found = provided("cuda")
    if found is None:
        raise NoDeviceError(f"torch.cuda exists here only as a name (Torch not compiled with CUDA enabled): {WHY}",
                            "torch.cuda.is_available()", "use the CPU")
    return found


def index_of(device=None) -> int:
    """The index of a device: an int, a device or its name; None: the current one."""
    found = provider_of()
    where = device if device is None or isinstance(device, int) else _device(device).index
    return found.current() if where is None else where
