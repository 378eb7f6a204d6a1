"""``torch.autograd.grad_mode``: what is recorded, by the name of PyTorch's file."""
from .mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from ..core.later import later

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
__getattr__ = later(__name__)
