"""``torch.autograd.grad_mode``: what is recorded, by the name of PyTorch's file."""
from .._src.autograd.mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .._src.core.native import Tensor, counter

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]


class _unsafe_preserve_version_counter:
    """A block in which writes to these tensors are not counted: what was saved of them is taken for what it was."""

    def __init__(self, tensors):
        self.tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)

    def __enter__(self):
        self.versions = [counter(t).version for t in self.tensors]

    def __exit__(self, *exception):
        for tensor, version in zip(self.tensors, self.versions):
            counter(tensor).version = version
