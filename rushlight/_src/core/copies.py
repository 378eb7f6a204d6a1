"""The cached packed copies of operands (``native/weights.py``), and their eviction."""
from __future__ import annotations

import weakref

from .native.blocks import heap
from .native.hooks import connect
from .native.weights import kept, let_go

IDLE = 512  # programs that a copy has not been used by when it makes room for another one
copies: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # packed operands that have or had a copy, by id


def copied(found):
    """Record an operand that has a cached copy."""
    copies[id(found)] = found


def living() -> list:
    """The operands that have a copy, least recently used first."""
    found = (one() for one in copies.valuerefs())
    return sorted((one for one in found if one is not None and one.memory is not None), key=lambda one: one.seen)


def make_room(nbytes: int):
    """Release copies that were not used lately, until there is room for ``nbytes`` bytes or none of these is left."""
    if nbytes > kept.most:
        return
    for found in living():
        if kept.bytes + nbytes <= kept.most or kept.clock - found.seen < IDLE:
            return
        let_go(found)


def drop_copies():
    """Release all copies: they are made again when they are needed."""
    for found in living():
        let_go(found)


heap.spare = drop_copies
connect("_src/core/copies.py", copied=copied, make_room=make_room, drop_copies=drop_copies)
