"""``torch._tensor``: the class of tensors, by the name of PyTorch's file."""
from ._src.core.native import Tensor

__all__ = ["Tensor"]
