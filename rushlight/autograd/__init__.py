"""Reverse-mode differentiation of what eager operators recorded."""
from ..core.later import later
from .backward import backward, grad
from .function import Function
from .gradcheck import gradcheck, gradgradcheck
from .mode import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled
from .variable import Variable
from . import node

__all__ = ["Function", "backward", "enable_grad", "grad", "gradcheck", "gradgradcheck", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
           "set_grad_enabled"]


__getattr__ = later(__name__, {"anomaly": ("detect_anomaly", "is_anomaly_enabled", "set_detect_anomaly")})
