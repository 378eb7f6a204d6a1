"""PyTorch's ``torch._inductor`` names: the compiler, as a backend that other backends can call."""
from ..core.later import later
from . import compile_fx

__all__ = ["compile_fx", "list_mode_options", "list_options"]
MODES = {"default": {}, "reduce-overhead": {}, "max-autotune": {"max_autotune": True}, "max-autotune-no-cudagraphs": {"max_autotune": True}}


def list_mode_options(mode=None, dynamic=None) -> dict:
    """What the modes of ``compile`` set: of one mode, or {mode: options}."""
    return dict(MODES[mode]) if mode else {name: dict(options) for name, options in MODES.items()}


def list_options() -> list:
    """The names that ``compile(options=...)`` knows."""
    from .config import INERT
    return sorted([*INERT, "max_autotune"])


__getattr__ = later(__name__)
