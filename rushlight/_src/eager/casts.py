"""Operators under autocast: those with a precision of their own (``Op.autocast``) get their arguments in it."""
from __future__ import annotations

import threading
import weakref

from ..core import interpret
from ..core.dtypes import bfloat16, float16, float32
from ..core.interpret import precision
from ..core.native import Op, Tensor, mine
from ..core.native.hooks import connect
from ..core.op import applied, body_of, parted
from .elsewhere import device_of

PRECISIONS = {1: bfloat16, 2: float16}  # what a code stands for
THERE = 8  # ``mine.autocast`` has the code of tensors of the host, and so many bits further on that of all others
CODES = (1 << THERE) - 1
LOWERED = 1  # the class of operators that compute in half precision; others compute in float32
PARTS = 3  # the class of operators whose bodies call some of either class


class Choices(threading.local):
    """What a thread chose: the precision of autocast, whether copies of leaves are kept for the length of a block, and
    these."""

    dtype, dtype_there = bfloat16, float16  # of the host, of other devices
    keeps = True

    def __init__(self):
        # id of a leaf: (weak reference to it, its version, whether recorded, its copy in half precision)
        self.copies = {}


choices = Choices()


def cast(op: Op, args, names):
    """The call of an operator whose arguments have to be in its precision; what it calls in turn computes as it is
    told."""
    if op.autocast == PARTS:
        return applied(body_of(op, args), args, names)
    positional, named = parted(args, names)
    where = device_of(args)
    code = mine.autocast & CODES if where is None or where.provider.on_host else mine.autocast >> THERE
    target = None if not code else PRECISIONS[code] if op.autocast == LOWERED else float32
    with precision(0):
        if target is None or named.get("out") is not None:
            return op(*positional, **named)
        return op(*(converted(a, target) for a in positional),
                  **{k: converted(a, target) for k, a in named.items()})


def converted(value, target):
    """A floating tensor in the target dtype (float64 stays), also within lists."""
    if type(value) in (list, tuple):
        return type(value)(converted(v, target) for v in value)
    if not isinstance(value, Tensor) or value.dtype is target or not (value.dtype.is_half or value.dtype is float32):
        return value
    if target is float32 or not kept(value):
        return value.to(target)
    return copy_of(value, target)


def kept(value) -> bool:
    """Whether an argument's copy is worth keeping: parameters are used again."""
    return (choices.keeps and value._needs_grad and value._grad_node is None and value._base is None
            and interpret.top() is None)


def copy_of(leaf, target):
    """A leaf in half precision, made once as long as it does not change and its history was not used up."""
    found = choices.copies.get(id(leaf))
    if found is not None:
        reference, version, recorded, copy = found
        fresh = copy._grad_node is None or copy._grad_node.saved is not None
        if (reference() is leaf and version == leaf._version and recorded == mine.grad and fresh
            and copy.dtype is target):
            return copy
    copy = leaf.to(target)
    choices.copies[id(leaf)] = weakref.ref(leaf), leaf._version, mine.grad, copy
    return copy


def forget():
    """Drops the copies."""
    choices.copies.clear()


def keep(on):
    """Sets whether copies of leaves are kept; None leaves it."""
    if on is not None:
        choices.keeps = bool(on)


def keeps() -> bool:
    """Whether copies of leaves are kept."""
    return choices.keeps


connect("_src/eager/casts.py", cast=cast)
