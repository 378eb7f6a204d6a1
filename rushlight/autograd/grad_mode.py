"""``torch.autograd.grad_mode``: what is recorded, by the name of PyTorch's file."""
from .._src.autograd.mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
