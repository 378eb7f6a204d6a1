"""PyTorch's ``torch._inductor`` names: the compiler, as a backend that other backends can call."""
from . import compile_fx

__all__ = ["compile_fx", "list_mode_options", "list_options"]


def list_mode_options(mode=None, dynamic=None) -> dict:
    """What the modes of ``compile`` set: of one mode, or {mode: options}.

    >>> import rushlight as torch
    >>> torch._inductor.list_mode_options("max-autotune")
    {'max_autotune': True}
    """
    from .._src.capture.modes import MODES
    return dict(MODES[mode]) if mode else {name: dict(options) for name, options in MODES.items()}


def list_options() -> list:
    """The names that ``compile(options=...)`` knows."""
    from .._src.capture.modes import OPTIONS, WITHOUT_MEANING
    return sorted((*OPTIONS, *WITHOUT_MEANING))
