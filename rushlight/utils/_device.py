"""The device of factory functions, as a context."""
from __future__ import annotations

from ..core import devices
from ..core.op import OPS
from ..core.later import later

__all__ = ["DeviceContext"]
CONSTRUCTORS = ("empty", "ones", "zeros", "full", "rand", "randn", "randint", "randperm", "arange", "linspace", "logspace", "eye", "empty_strided", "tril_indices", "triu_indices")


class DeviceContext:
    """``with DeviceContext("meta"):`` factory functions that name no device make their tensors there."""

    def __init__(self, device):
        self.device = devices.device(device)

    def __enter__(self):
        self.device.__enter__()
        return self

    def __exit__(self, *exception):
        self.device.__exit__(*exception)


def _device_constructors() -> set:
    """The functions that take a device."""
    from ..core.exchange import as_tensor, scalar_tensor, tensor
    return {*(OPS[n] for n in CONSTRUCTORS if n in OPS), tensor, as_tensor, scalar_tensor}


__getattr__ = later(__name__)
