"""Tensors without data, by PyTorch's private names."""
from .fake_tensor import FakeTensor, FakeTensorMode
from ..core.later import later

__all__ = ["FakeTensor", "FakeTensorMode"]
__getattr__ = later(__name__)
