"""Reverse-mode differentiation of what eager operators recorded."""
from .backward import backward, grad
from .function import Function
from .gradcheck import gradcheck, gradgradcheck
from .mode import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled
from . import node

__all__ = ["Function", "backward", "enable_grad", "grad", "gradcheck", "gradgradcheck", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
           "set_grad_enabled"]


def __getattr__(name):
    """Rooms that few programs enter are imported when they are first asked for."""
    from importlib import import_module

    if name in ("anomaly", "forward_ad", "functional", "graph", "profiler"):
        return import_module(f".{name}", __name__)
    if name in ("detect_anomaly", "is_anomaly_enabled", "set_detect_anomaly"):
        return getattr(import_module(".anomaly", __name__), name)
    if name == "Variable":
        return import_module("..core.native", __name__).Tensor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
