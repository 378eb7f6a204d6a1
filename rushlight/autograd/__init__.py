"""Reverse-mode differentiation of what eager operators recorded."""
from .._src.core.later import later
from .._src.autograd.backward import backward, grad  # noqa: F401
from .._src.autograd.function import Function  # noqa: F401
from .._src.core.interpret import is_checkpoint_valid as _is_checkpoint_valid  # noqa: F401
from .gradcheck import gradcheck, gradgradcheck  # noqa: F401
from .._src.autograd.mode import (enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad,
                                  set_grad_enabled)  # noqa: F401
from .variable import Variable  # noqa: F401


def _profiler_enabled() -> bool:
    """Whether a profiler records, ``torch.profiler.profile`` or an older one."""
    from ..profiler import _recorders
    return bool(_recorders)


def variable(*args, **kwargs):
    """Refused, as in PyTorch: RuntimeError."""
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


__getattr__ = later(__name__, {"._src.autograd.anomaly": ("detect_anomaly", "is_anomaly_enabled",
                                                          "set_detect_anomaly")})
