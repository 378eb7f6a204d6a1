"""Tensors without data: those of the meta device stand for them."""
from __future__ import annotations

from ..capture.record import Fake as FakeTensor
from ..core import devices
from ..core.later import later

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake"]


def is_fake(x) -> bool:
    """Whether a tensor stands for one whose data is not known."""
    return isinstance(x, FakeTensor)


class FakeTensorMode:
    """A block in which factory functions make tensors without data, on the meta device."""

    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None, static_shapes=None, export=False):
        self.shape_env = shape_env

    def __enter__(self):
        devices.meta.__enter__()
        return self

    def __exit__(self, *exception):
        devices.meta.__exit__(*exception)

    def from_tensor(self, tensor, **kwargs):
        """A tensor like another, without data."""
        return tensor.to("meta")


__getattr__ = later(__name__)
