"""Reductions: accumulators of a kernel's stages, and the stores of stages."""
from __future__ import annotations

from ....core.expr import add
from ....compiler.kernel import Kernel
from . import scalars
from .values import constant, constant_vector
from .memory import Memory
from .scalars import COMPUTED, STORED
from .types import i1, i64, vector


class Reductions(Memory):
    """Accumulates and stores.  ``beside``: pairs of buffers that are stored to at the same offsets; an i1 that is true
    if the second is one element further on."""

    def __init__(self, b, kernel: Kernel):
        super().__init__(b, kernel)
        self.beside: dict = {}

    def accumulate(self, stage, values):
        """Emit one step of every reduction and store of a stage; return the new accumulators."""
        out = []
        for r, before in zip(stage.reductions, values):
            new = [self.operand(r.value)]
            if r.at is not None:
                new.append(self.operand(r.at))
            after = self.combine(r, before, new) if not (r.running and self.along_loops()) else self.prefixes(
                r, before[0], new[0])
            mask = self.context.mask if self.context else None
            out.append([self.b.select(mask, a, old) for a, old in zip(after, before)] if mask is not None else after)
        self.scopes[-1].update((r.result, self.so_far if self.along_loops() else a[0])
                               for r, a in zip(stage.reductions, out) if r.running)
        # all before the first store changes anything
        values = [self.raw(s.value) if copies(s) else self.operand(s.value) for s in stage.stores]
        waiting = list(zip(stage.stores, values))
        while waiting:
            s, value = waiting.pop(0)
            if waiting and self.may_lie_beside(s, waiting[0][0]):
                t, other = waiting.pop(0)
                apart = lambda: self.alone(self.store, s, value) or self.alone(self.store, t, other)
                second = lambda: self.b.when(self.beside[t.buffer, s.buffer],
                                             lambda: self.alone(self.interleaved, t, other, s, value), apart)
                self.b.when(self.beside[s.buffer, t.buffer], lambda: self.alone(self.interleaved, s, value, t, other),
                            second)
            else:
                self.store(s, value)
        return out

    def may_lie_beside(self, s, t) -> bool:
        """True if two stores go to every other element, at the same offsets, so that they may fill each other's gaps
        (complex numbers)."""
        return self.context is not None and (s.buffer, t.buffer) in self.beside and self.lane_stride(s.at)[1] == 2

    def interleaved(self, s, value, t, other):
        """Emit both stores as one, lanes interleaved."""
        b, lanes, rest = self.b, self.lanes, self.lane_stride(s.at)[0]
        low = b.offset(self.pointer(s.buffer, rest), b.mul(self.context.start, 2), STORED[s.buffer.dtype.name])
        first, second, count = scalars.to_memory(b, value, s.buffer.dtype), scalars.to_memory(
            b, other, t.buffer.dtype), self.context.count
        for half in range(2):
            turns = [k // 2 + half * (lanes // 2) + lanes * (k % 2) for k in range(lanes)]
            mask = None if count is None else b.lane_mask(b.sub(b.mul(count, 2), half * lanes), lanes)
            b.store(b.shuffle(first, second, turns), b.offset(low, half * lanes, first.type.element), mask=mask)

    def along_loops(self) -> bool:
        """True if vectors run along a loop of the stage, rather than along an outer axis."""
        return self.context is not None and self.kernel.lane is None

    def prefixes(self, r, before, value):
        """Combine each lane with those before it and with the result of earlier vectors, and store that in ``so_far``;
        return the total, in every lane, for the next vector."""
        b, lanes, step = self.b, self.lanes, 1
        while step < lanes:
            moved = b.shuffle(value, None, [(k - step) % lanes for k in range(lanes)])
            far = constant_vector(i1, [k >= step for k in range(lanes)])
            value, step = b.select(far, self.combine(r, [moved], [value])[0], value), 2 * step
        self.so_far = self.combine(r, [before], [value])[0]
        whole = b.shuffle(value, None, [lanes - 1] * lanes)
        return self.combine(r, [before], [whole])

    def identity(self, r, wide):
        """The initial value of a reduction."""
        kind = COMPUTED[r.value.dtype.name]
        lanes = self.lanes if wide else 0
        type = vector(kind, lanes)
        if r.combine in ("argmax", "argmin"):
            return [extreme_constant(type, r.value.dtype, r.combine == "argmin"),
                    constant(vector(i64, lanes), (1 << 63) - 1)]
        if r.combine in ("max", "min"):
            return [extreme_constant(type, r.value.dtype, r.combine == "min")]
        start = {"add": 0, "mul": 1, "and": -1, "or": 0}[r.combine]
        return [constant(type, float(start) if kind.is_float else start)]

    def combine(self, r, old, new):
        b, combine = self.b, r.combine
        if combine in ("argmax", "argmin"):
            return self.first_extreme(combine, old, new, r.value.dtype.is_signed)
        if combine in ("max", "min"):
            return [scalars.extreme(b, combine, old[0], new[0], r.value.dtype.is_signed)]
        return [{"add": b.add, "mul": b.mul, "and": b.and_, "or": b.or_}[combine](old[0], new[0])]

    def first_extreme(self, combine, old, new, signed):
        """(value, index) pairs: the more extreme value, NaN above all, the first index among equals."""
        b, (x, i), (y, j) = self.b, old, new
        better = b.compare(">" if combine == "argmax" else "<", y, x, signed)
        tie = b.compare("==", y, x)
        if x.type.is_float:
            nan_x, nan_y = b.is_nan(x), b.is_nan(y)
            better = b.or_(better, b.and_(nan_y, b.not_(nan_x)))
            tie = b.or_(tie, b.and_(nan_x, nan_y))
        take = b.or_(better, b.and_(tie, b.compare("<", j, i)))
        return [b.select(take, y, x), b.select(take, j, i)]

    def store(self, s, value):
        b, c, dtype = self.b, self.context, s.buffer.dtype
        rest, stride = self.lane_stride(s.at) if c else (s.at, 0)
        mask = c.mask if c else None
        if c is None or stride == 1:
            pointer = self.pointer(s.buffer, add(rest, self.lane_start()) if c else rest)
            if s.combine:
                old = scalars.from_memory(b, b.load(self.stored(s.buffer), pointer, mask=mask), dtype)
                value = self.update(s, old, value)
            b.store(value if copies(s) else scalars.to_memory(b, value, dtype), pointer, mask=mask)
            return
        element = STORED[dtype.name]
        pointers = self.addresses(s.buffer, s.at, rest, stride)
        if s.combine:
            old = scalars.from_memory(b, b.gather(vector(element, self.lanes), pointers, mask), dtype)
            value = self.update(s, old, value)
        b.scatter(value if copies(s) else scalars.to_memory(b, value, dtype), pointers, mask)

    def update(self, s, old, new):
        if s.combine in ("max", "min"):
            return scalars.extreme(self.b, s.combine, old, new, s.buffer.dtype.is_signed)
        if old.type.element is i1:
            return (self.b.or_ if s.combine == "add" else self.b.and_)(old, new)
        return {"add": self.b.add, "mul": self.b.mul}[s.combine](old, new)


def copies(store) -> bool:
    """True if a store writes 16-bit floats unchanged: no need to widen and round them."""
    return (store.value.op == "load" and store.value.dtype is store.buffer.dtype and store.value.dtype.is_half
            and not store.combine)


def extreme_constant(type, dtype, largest: bool):
    """The least value of a dtype, or the largest: the initial value of a maximum or minimum."""
    if type.element.is_float:
        return constant(type, float("inf") if largest else float("-inf"))
    if type.element is i1:
        return constant(type, int(largest))
    bits = type.element.bits
    if not dtype.is_signed:
        return constant(type, (1 << bits) - 1 if largest else 0)
    return constant(type, (1 << bits - 1) - 1 if largest else -(1 << bits - 1))
