"""Reverse: records how values were made, to pull cotangents back (grad and vjp within other transforms).

Unlike the engine's graph of eager operators, this one has levels: the values it notes may be batched or dual, and the
pull back runs under whatever interpreters are active then.
"""
from __future__ import annotations

import heapq
import itertools

from ..core.interpret import Suspended, derivatives
from ..core.native import Op, held, mine
from ..core.native.scopes import GRAD, PUSHED, STACK
from ..core.errors import LeafWrittenError
from ..core.op import OPS
from ..core.tensor import Tensor
from ..transforms.level import Level, Wrapped, map_results

_numbers = itertools.count()


class Entry:
    """One recorded call: ``pull(cotangents)`` returns a cotangent (or None) for each of ``sources``, results of other
    entries."""

    def __init__(self, pull, sources, count):
        self.pull, self.sources, self.count = pull, sources, count
        self.number = next(_numbers)

    def __lt__(self, other):
        return self.number > other.number


class Derived(Entry):
    """A recorded operator call: ``seen`` are its values, results and extras; the backward reads some of them."""

    def __init__(self, linear, sources, seen, outputs):
        self.linear, self.sources, self.count, self.outputs = linear, sources, len(outputs), outputs
        self.residuals = [seen[k] for k in linear.residuals]
        self.number = next(_numbers)

    def pull(self, cotangents):
        carrying = self.linear.carrying
        given = [zeros_like(self.outputs[k]) if cotangents[k] is None else cotangents[k] for k in carrying]
        return self.linear.backward(*self.residuals, *given)


class Tracked(Wrapped):
    """A value, and the destination of its cotangent: (entry, result index), or None for a constant."""

    def __new__(cls, level, value, place=None):
        made = super().__new__(cls, level, value)
        made.place = place
        return made

    def holding(self, other):
        return Tracked(self.level, self.value_holding(other), self.place)

    def replace_value(self, other):
        super().replace_value(other)
        self.place = other.place

    @property
    def requires_grad(self):
        return self.place is not None

    @property
    def is_leaf(self):
        return self.place is None or self.place[0].pull is None

    def requires_grad_(self, requires_grad=True):
        if not self.level.leaves:
            return super().requires_grad_(requires_grad)
        if requires_grad and self.place is None:
            self.place = Entry(None, (), 1), 0
        return self


class Reverse(Level):
    """One reverse derivative.  While it is active, operators are recorded; below it the outer grad mode applies."""

    kind = Tracked
    name = "grad"
    leaves = False  # True if tensors may become separate leaves, as in programs that the engine differentiates

    def __enter__(self):
        self.outer = held(PUSHED | GRAD, self.outer, self)
        mine.stack += (self,)
        mine.grad = 1
        return self

    def leaf(self, value) -> Tracked:
        """A value to differentiate with respect to."""
        carries = value.dtype.is_inexact
        return Tracked(self, value, (Entry(None, (), 1), 0) if carries else None)

    def adopt(self, results):
        return map_results(lambda r: r if isinstance(r, Tracked) else Tracked(self, r), results)

    def recording(self) -> bool:
        """True if operators of this level are being recorded."""
        return bool(mine.grad)

    def mutate(self, op, args, kwargs):
        target = args[op.traits["into"]]
        if self.owns(target) and target.place is not None and target.place[0].pull is None and self.recording():
            raise LeafWrittenError("a leaf Variable that requires grad is being used in an in-place operation.",
                                   "a result, or a leaf without gradient",
                                   "change a clone(), or do it under no_grad()")
        return super().mutate(op, args, kwargs)

    def answer(self, op: Op, tensors, args, kwargs):
        places = [t.place if self.owns(t) else None for t in tensors]
        wanted = tuple([k for k, p in enumerate(places) if p is not None])
        noted = wanted and mine.grad and not op.traits.get("detaches")
        with Beneath(self):
            if noted:
                return self.note(op, args, kwargs, places, wanted)
            return self.adopt(op(*args, **kwargs))

    def note(self, op, args, kwargs, places, wanted):
        values, linear = derivatives.linearised(op, args, kwargs, wanted)
        if linear.forward is None:
            results, extras = op(*args, **kwargs), ()
        else:
            found = linear.forward(*values)
            extras = found[linear.count:]
            results = found[:linear.count] if linear.several else found[0]
        if linear.backward is None:
            return self.adopt(results)
        outputs = results if linear.several else (results,)
        entry = Derived(linear, [places[k] for k in linear.reached], (*values, *outputs, *extras), outputs)
        if not linear.several:
            return Tracked(self, results, (entry, 0))
        return tuple(Tracked(self, r, (entry, k) if k in linear.carrying else None) for k, r in enumerate(outputs))


class Beneath(Suspended):
    """A block below a level of reverse mode, in the grad mode outside of the level."""

    def __enter__(self):
        stack, level = mine.stack, self.interpreter
        below, recorded = stack[:stack.index(level)], mine.grad and level.outer[1]
        self.outer = held(STACK | GRAD, self.outer, None)
        mine.stack = below
        mine.grad = recorded


def zeros_like(tensor) -> Tensor:
    return OPS["zeros_like"](tensor)


def pull_back(outputs, cotangents, sources) -> list:
    """Return cotangents of the entries ``sources``, given those of the entries ``outputs``: None for undefined ones."""
    received: dict = {}
    queue: list = []

    def add(place, cotangent):
        if place is None or cotangent is None:
            return
        entry, k = place
        slots = received.get(entry)
        if slots is None:
            slots = received[entry] = [None] * entry.count
            heapq.heappush(queue, entry)
        slots[k] = cotangent if slots[k] is None else OPS["add"](slots[k], cotangent)

    for place, cotangent in zip(outputs, cotangents):
        add(place, cotangent)
    while queue:
        entry = heapq.heappop(queue)
        if entry.pull is not None:
            for place, cotangent in zip(entry.sources, entry.pull(received.pop(entry))):
                add(place, cotangent)
    return [received[p[0]][p[1]] if p is not None and p[0] in received else None for p in sources]
