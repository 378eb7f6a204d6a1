"""Marks of stage ends in a model's program.  The functions here are traced while the model is captured."""
from __future__ import annotations

import enum

import rushlight as torch

from ...library import custom_op

__all__ = ["SplitPoint"]


@custom_op("rushlight_pipelining::mark", mutates_args=())
def mark(x: torch.Tensor) -> torch.Tensor:
    """Return the same elements, at the end of a stage."""
    return x.clone()


@mark.register_fake
def _same(x):
    return torch.empty_like(x)


mark.register_autograd(lambda ctx, gradient: gradient)


class SplitPoint(enum.Enum):
    """A split before a submodule, or after it."""

    BEGINNING = 1
    END = 2


class Marking:
    """A block in which submodules mark where stages begin and end."""

    def __init__(self, module, spec: dict):
        self.handles, self.module, self.spec = [], module, spec

    def __enter__(self):
        for name, point in self.spec.items():
            one = self.module.get_submodule(name)
            if point is SplitPoint.BEGINNING:
                self.handles.append(one.register_forward_pre_hook(lambda mod, args: (marked(args[0]), *args[1:])))
            elif point is SplitPoint.END:
                self.handles.append(one.register_forward_hook(lambda mod, args, out: marked(out)))
            else:
                raise TypeError(f"split_spec[{name!r}] is a SplitPoint, not {type(point).__name__}")

    def __exit__(self, *error):
        for handle in self.handles:
            handle.remove()


def marked(value):
    """A tensor, or the first of several, marked."""
    if isinstance(value, (tuple, list)):
        return type(value)((mark(value[0]), *value[1:]))
    return mark(value)
