"""``torch._tensor``: the class of tensors, by the name of PyTorch's file."""
from .core.native import Tensor

__all__ = ["Tensor"]
