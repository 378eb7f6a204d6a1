"""``torch._tensor``: the class of tensors, by the name of PyTorch's file."""
from .core.later import later
from .core.native import Tensor

__all__ = ["Tensor"]


__getattr__ = later(__name__)
