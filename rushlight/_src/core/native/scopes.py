"""Blocks that change the state of the calling thread. Leaving one is one step, so that no signal handler's exception
comes before all state is restored."""
from __future__ import annotations

from .language import Args, cast, filled, i64, native, new_tuple, tuple_set, vectorcall
from .objects import mine

# see ``held``
GRAD, INFERENCE, AUTOCAST, PLAIN, PACKING, STACK = 1, 2, 4, 8, 16, 32
MODES, PUSHED, WATCHING, HOOKS, ON_ERROR = 64, 128, 256, 512, 1024
ONE = 8  # index of ``one`` in the result of ``held``


@native
def held(what: i64, outer: tuple, one: object) -> tuple:
    """The state that a block restores when it is left (``what``: which of it; PUSHED: the stack except ``one``,
    WATCHING: the modes except it; ON_ERROR: only if an error leaves the block), and that of an enclosing block of the
    same object."""
    own = mine
    return (what, own.grad, own.inference, own.autocast, own.plain, own.packing, own.stack, own.modes, one, own.hooks,
            outer)


@native
def without(entries: tuple, one: object) -> tuple:
    """Entries of a stack but the last that is ``one``."""
    count = len(entries)
    at = count - 1
    while at >= 0 and entries[at] is not one:
        at -= 1
    if at < 0:
        return entries
    left = new_tuple(count - 1)
    for k in range(count - 1):
        tuple_set(left, k, entries[k if k < at else k + 1])
    return filled(left)


@native(binds=True)
class Leaving:
    """The method ``Scope.__exit__``."""

    @vectorcall
    def call(self, args: Args, names: tuple) -> object:
        scope = args[0]
        held_by = scope.outer
        if held_by is None:
            raise RuntimeError("a block is left that was not entered")
        was = cast(tuple, held_by)
        what: i64 = was[0]
        scope.outer = was[10]
        if what & ON_ERROR != 0 and (len(args) < 2 or args[1] is None):
            return None
        own = mine
        if what & GRAD != 0:
            own.grad = was[1]
        if what & INFERENCE != 0:
            own.inference = was[2]
        if what & AUTOCAST != 0:
            own.autocast = was[3]
        if what & PLAIN != 0:
            own.plain = was[4]
        if what & PACKING != 0:
            own.packing = was[5]
        if what & STACK != 0:
            own.stack = was[6]
        if what & MODES != 0:
            own.modes = was[7]
        if what & HOOKS != 0:
            own.hooks = was[9]
        if what & PUSHED != 0:
            own.stack = without(own.stack, was[8])
        if what & WATCHING != 0:
            own.modes = without(own.modes, was[8])
        if scope.after is not None:
            scope.after()
        return None


@native(binds=True)
class LeavingDevice:
    """The method ``device.__exit__``: restores the preferred device of the enclosing block."""

    @vectorcall
    def call(self, args: Args, names: tuple) -> object:
        own = mine
        entries = own.devices
        last = len(entries) - 1
        if last < 0:
            raise RuntimeError("a block is left that was not entered")
        left = new_tuple(last)
        for k in range(last):
            tuple_set(left, k, entries[k])
        own.device = entries[last]
        own.devices = filled(left)
        return None


class Scope:
    """A block. ``__enter__`` sets ``outer`` by ``held``, then changes the thread's state without any call in between or
    after: an interrupt comes with calls only.

    A subclass has no ``__exit__`` of its own: its cleanup is ``after()``, called when all state is restored.
    """

    outer = after = None
