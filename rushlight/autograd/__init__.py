"""Reverse-mode differentiation of what eager operators recorded."""
from .._src.core.later import later
from .._src.autograd.backward import backward, grad
from .._src.autograd.function import Function
from .gradcheck import gradcheck, gradgradcheck
from .._src.autograd.mode import (enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad,
                                  set_grad_enabled)
from .variable import Variable

__all__ = ["Function", "backward", "enable_grad", "grad", "gradcheck", "gradgradcheck", "inference_mode",
           "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
           "set_grad_enabled"]


def variable(*args, **kwargs):
    """Refused, as in PyTorch: RuntimeError."""
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


__getattr__ = later(__name__, {"._src.autograd.anomaly": ("detect_anomaly", "is_anomaly_enabled",
                                                          "set_detect_anomaly")})
