"""Additions of ``torch._refs`` to the operators themselves: conversions as functions, and a mode that calls them."""
from __future__ import annotations

from ..overrides import BaseTorchFunctionMode

__all__ = ["TorchRefsMode", "bfloat16", "bool", "byte", "cdouble", "cfloat", "chalf", "char", "double", "float", "half",
           "int", "long", "short"]


def conversion(name):
    """Return the tensor method that converts to a dtype, as a function."""
    def body(a, memory_format=None):
        return getattr(a, name)() if memory_format is None else getattr(a, name)().contiguous(
            memory_format=memory_format)

    body.__name__, body.__doc__ = name, f"As ``a.{name}()``."
    return body


for _name in __all__[1:]:
    globals()[_name] = conversion(_name)


class TorchRefsMode(BaseTorchFunctionMode):
    """A block in which functions of ``torch`` are those of ``torch._refs``: they are the same here, so nothing
    changes."""

    def __init__(self, strict=False, should_fallback_fn=lambda *_: False, prims_mode_cls=None):
        super().__init__()
