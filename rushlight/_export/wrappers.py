"""Decorators for tensor subclasses that are exported."""
from __future__ import annotations

__all__ = ["mark_subclass_constructor_exportable_experimental"]


def mark_subclass_constructor_exportable_experimental(constructor_subclass):
    """Declares that graphs of ``torch.export`` may construct a tensor subclass; a decorator of its ``__init__``.

    The constructor itself is returned: graphs contain the operators that it calls, and no call of the constructor.
    RuntimeError for another function than ``__init__``.

    >>> import rushlight as torch
    >>> class Scaled(torch.Tensor):
    ...     @mark_subclass_constructor_exportable_experimental
    ...     def __init__(self, elements, scale):
    ...         self.scale = scale
    """
    name = getattr(constructor_subclass, "__name__", repr(constructor_subclass))
    if not callable(constructor_subclass) or name != "__init__":
        raise RuntimeError("torch._export.wrappers.mark_constructor_exportable_experimental can only be applied on "
                           f"subclass tensor.__init__, but it is applied to {name}")
    return constructor_subclass
