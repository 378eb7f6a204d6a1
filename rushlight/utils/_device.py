"""The device of factory functions, as a context."""
from __future__ import annotations

from .._src.core import devices
from .._src.core.op import OPS

__all__ = ["DeviceContext"]
CONSTRUCTORS = ("empty", "ones", "zeros", "full", "rand", "randn", "randint", "randperm", "arange", "linspace",
                "logspace", "eye", "empty_strided", "tril_indices", "triu_indices")


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
    from .._src.core.exchange import as_tensor, scalar_tensor, tensor
    return {*(OPS[n] for n in CONSTRUCTORS if n in OPS), tensor, as_tensor, scalar_tensor}
