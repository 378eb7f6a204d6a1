"""Reverse-mode differentiation of what eager operators recorded."""
from .backward import backward, grad
from .function import Function
from .mode import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled
from . import node

__all__ = ["Function", "backward", "enable_grad", "grad", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
           "set_grad_enabled"]
