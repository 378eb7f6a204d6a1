"""Gradient averaging as operators of a compiled program, concurrent with the rest of the backward pass."""
from __future__ import annotations

import itertools
import math
import weakref

from ..._src.autograd.function import Function
from ..._src.core.op import OPS

numbers = itertools.count()
listening: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # name -> who hears of averages in programs


def named(listener) -> str:
    """A name for who hears of averages (``told(index)``), as long as it lives."""
    name = f"reducer{next(numbers)}"
    listening[name] = listener
    return name


def tell(whom: str):
    """Notify a listener ("name:index") that a program averages gradients now."""
    name, _, index = whom.partition(":")
    listener = listening.get(name)
    if listener is not None:
        listener.told(int(index))


class Averaged(Function):
    """Parameters as they are, whose gradients are averaged over a group (its name), all by one exchange: those of all
    uses in the program, since the parameters themselves stand for these results there."""

    collects = True

    @staticmethod
    def forward(ctx, name, index, group, *parameters):
        ctx.whom, ctx.group, ctx.shapes = f"{name}:{index}", group, [p.shape for p in parameters]
        return tuple(p.view_as(p) for p in parameters)

    @staticmethod
    def backward(ctx, *gradients):
        flat = OPS["cat"]([g.reshape(-1) for g in gradients])
        parts = OPS["_average_gradients"](flat, ctx.whom, ctx.group).split([math.prod(shape) for shape in ctx.shapes])
        return (None, None, None, *(part.view(shape) for part, shape in zip(parts, ctx.shapes)))


def averaged(module, buckets, name: str, group: str) -> dict:
    """Return {name: a parameter whose gradient arrives averaged} of a module, by lists of names; ``name`` is the
    listener."""
    known, found = dict(module.named_parameters()), {}
    for index, names in enumerate(buckets):
        found.update(zip(names, Averaged.apply(name, index, group, *[known[one] for one in names])))
    return found
