"""Operators under autocast: those with their own precision (``Op.autocast``) get their arguments in it."""
from __future__ import annotations

import threading
import weakref

from ..core import interpret
from ..core.devices import cpu
from ..core.dtypes import bfloat16, float16, float32
from ..core.interpret import precision
from ..core.native import Op, Tensor, mine
from ..core.native.hooks import connect
from ..core.op import applied, body_of, in_parts, parted
from ..core.precisions import FLOAT32, HALF, PARTS, REFUSED
from ..core.tensor import flat
from .elsewhere import device_of

PRECISIONS = {1: bfloat16, 2: float16}  # dtypes by code
THERE = 8  # ``mine.autocast``: the low bits are the code of host tensors, the bits above that of all others
CODES = (1 << THERE) - 1


class Choices(threading.local):
    """A thread's autocast settings: the precision, whether copies of leaves are kept within a block, and the copies."""

    def __init__(self):
        self.dtype, self.dtype_there = bfloat16, float16  # of the host, of other devices
        self.keeps = True
        # id of a leaf: (weak reference to it, its version, whether recorded, its copy in half precision)
        self.copies = {}


choices = Choices()


def cast(op: Op, args, names):
    """Call an operator whose arguments must be in its precision; operators that it calls use the precision of their
    arguments."""
    positional, named = parted(args, names)
    where = (device_of(args) or cpu).provider
    code = mine.autocast & CODES if where.on_host else mine.autocast >> THERE
    chosen = op.precisions.get(where.autocast, 0)
    if not chosen or chosen == PARTS:
        return applied(body_of(op, args), args, names) if chosen or in_parts(op) else plainly(op, args, names)
    if not code or named.get("out") is not None:
        return plainly(op, args, names)
    if chosen == REFUSED:
        raise RuntimeError(f"{op.name} is unsafe under autocast: the logarithm of a probability in half precision may "
                           "be infinite; use binary_cross_entropy_with_logits, or turn autocast off around it")
    target = {HALF: PRECISIONS[code], FLOAT32: float32}.get(chosen) or widest((positional, named))
    with precision(0):
        return op(*(converted(a, target) for a in positional),
                  **{k: converted(a, target) for k, a in named.items()})


def plainly(op: Op, args, names):
    """Make a call in the precision of its arguments."""
    with precision(0):
        return applied(op, args, names)


def widest(args):
    """Return the dtype of a call's floating tensors below float64 if there is one, else float32."""
    found = {value.dtype for value in flat(args) if isinstance(value, Tensor)
             and (value.dtype.is_half or value.dtype is float32)}
    return found.pop() if len(found) == 1 else float32


def converted(value, target):
    """Return a floating tensor in the target dtype (float64 is unchanged), also within lists."""
    if type(value) in (list, tuple):
        return type(value)(converted(v, target) for v in value)
    if not isinstance(value, Tensor) or value.dtype is target or not (value.dtype.is_half or value.dtype is float32):
        return value
    if target is float32 or not kept(value):
        return value.to(target)
    return copy_of(value, target)


def kept(value) -> bool:
    """True if an argument's copy pays off: parameters are used again."""
    return (choices.keeps and value._rush_needs_grad and value._rush_grad_node is None and value._base is None
            and interpret.top() is None)


def copy_of(leaf, target):
    """Return a leaf in half precision, cast once while it does not change and its history was not used up."""
    found = choices.copies.get(id(leaf))
    if found is not None:
        reference, version, recorded, copy = found
        fresh = copy._rush_grad_node is None or copy._rush_grad_node.saved is not None
        if (reference() is leaf and version == leaf._version and recorded == mine.grad and fresh
            and copy.dtype is target):
            return copy
    copy = leaf.to(target)
    choices.copies[id(leaf)] = weakref.ref(leaf), leaf._version, mine.grad, copy
    return copy


def forget():
    """Drop the copies."""
    choices.copies.clear()


def keep(on):
    """Set whether copies of leaves are kept; None leaves it."""
    if on is not None:
        choices.keeps = bool(on)


def keeps() -> bool:
    """True if copies of leaves are kept."""
    return choices.keeps


connect("_src/eager/casts.py", cast=cast)
