"""Loads of buffer elements, as vector loads if they are contiguous."""
from __future__ import annotations

from ....core.expr import Expr, add, const, plain, terms
from ....compiler.kernel import Kernel
from . import scalars
from .values import constant_vector, zero
from .element import Element
from .scalars import STORED
from .types import i1, i32, i64, vector


class Memory(Element):
    """Reads buffers, whose addresses are ``pointers``."""

    def __init__(self, b, kernel: Kernel):
        super().__init__(b, kernel)
        self.pointers: dict = {}

    def stored(self, buffer):
        return vector(STORED[buffer.dtype.name], self.lanes if self.context else 0)

    def pointer(self, buffer, at):
        """The address of a position; the part that does not move with the vector is shared."""
        key = ("pointer", buffer, at)
        found = self.found(key)
        if found is None:
            moving = [x for x in at.free if x.op == "index"
                      and x.arg[0] == "lane start"] if isinstance(at, Expr) else []
            if moving:
                base = self.pointer(buffer, at - moving[0])
                found = self.b.offset(base, self.value(moving[0]), STORED[buffer.dtype.name])
            else:
                found = self.b.offset(self.pointers[buffer], self.value(const(at)), STORED[buffer.dtype.name])
            self.scopes[-1][key] = found
        return found

    def addresses(self, buffer, at, rest, stride):
        """The address of each lane's element."""
        b, element = self.b, STORED[buffer.dtype.name]
        if stride is None:
            return b.offset(self.pointers[buffer], self.vector(const(at)), element)
        step = const(stride)
        found = self.found(("steps", step))
        if found is None:
            # LLVM gathers by 32-bit offsets if it knows that they are small
            kind = i32 if isinstance(plain(step), int) else i64
            lanes = b.lane_indices(self.lanes, kind)
            found = b.mul(lanes, plain(step)) if kind is i32 else b.mul(lanes, self.vector(step))
            self.scopes[-1]["steps", step] = found
        base = b.offset(self.pointer(buffer, rest), b.mul(self.context.start, self.value(step)), element)
        return b.offset(base, b.cast("sext", found, vector(i64, self.lanes)) if found.type.element is i32 else found,
                        element)

    def repeats(self, at):
        """(rest, n) with at = rest + axis // n, n a power of two no larger than a vector: each element is there n
        times."""
        parts, _ = terms(at)
        for e, c in parts.items():
            if c == 1 and e.op == "//" and e.args[0] is self.context.axis and e.args[1].op == "const":
                rest, n = at - e, e.args[1].arg
                if n & n - 1 == 0 and n <= self.lanes and not (isinstance(rest, Expr)
                                                               and self.context.axis in rest.free):
                    return rest, n
        return None

    def repeated(self, buffer, rest, n, type):
        """A part of a vector, each element n times.  (Vectors start at multiples of their length.)"""
        b, few = self.b, self.lanes // n
        low = b.offset(self.pointer(buffer, rest), b.div(self.context.start, n), type.element)
        count = self.context.count
        mask = None if count is None else b.lane_mask(b.div(b.add(count, n - 1), n), few)
        read = b.load(vector(type.element, few), low, mask=mask)
        return b.shuffle(read, None, [k // n for k in range(self.lanes)])

    def backwards(self, buffer, rest, type, mask):
        """A load with stride -1: the vector that ends at the first element, reversed."""
        b, turn = self.b, list(reversed(range(self.lanes)))
        low = b.offset(self.pointer(buffer, rest), b.sub(1 - self.lanes, self.context.start), type.element)
        return b.shuffle(b.load(type, low, mask=mask and b.shuffle(mask, None, turn)), None, turn)

    def every_other(self, buffer, rest, type):
        """A load with stride 2: two vectors, less the one element beyond the last, and their even lanes."""
        b, lanes = self.b, self.lanes
        low = b.offset(self.pointer(buffer, rest), b.mul(self.context.start, 2), type.element)
        high, count = b.offset(low, lanes, type.element), self.context.count
        if count is None:
            first, second = None, constant_vector(i1, [1] * (lanes - 1) + [0])
        else:
            last = b.sub(b.mul(count, 2), 1)
            first, second = b.lane_mask(last, lanes), b.lane_mask(b.sub(last, lanes), lanes)
        return b.shuffle(b.load(type, low, mask=first), b.load(type, high, mask=second), list(range(0, 2 * lanes, 2)))

    def raw(self, e):
        """The stored value of a load, in every lane."""
        key = ("raw", e)
        found = self.found(key)
        if found is None:
            found = self.scopes[-1][key] = self.stored_value(e)
        return self.b.splat(found, self.lanes) if self.context and not found.type.lanes else found

    def load(self, e):
        return scalars.from_memory(self.b, self.stored_value(e), e.dtype)

    def stored_value(self, e):
        b, dtype, buffer, c = self.b, e.dtype, e.arg, self.context
        at = plain(e.args[0])
        condition = self.value(e.args[1]) if len(e.args) > 1 else None
        if self.uniform(e):
            if condition is None:
                return b.load(STORED[dtype.name], self.pointer(buffer, at))
            where = b.select(condition, self.value(const(at)), 0)
            read = b.load(STORED[dtype.name], b.offset(self.pointers[buffer], where, STORED[dtype.name]))
            return b.select(condition, read, zero(read.type))
        mask = c.mask
        if condition is not None:
            condition = condition if condition.type.lanes else b.splat(condition, self.lanes)
            mask = condition if mask is None else b.and_(mask, condition)
        rest, stride = self.lane_stride(at)
        type = vector(STORED[dtype.name], self.lanes)
        if stride == 1:
            pointer = self.pointer(buffer, add(rest, self.lane_start()))
            if condition is not None and c.mask is None:
                read, = b.when(b.reduce("and", mask), lambda: [b.load(type, pointer)],
                               lambda: [b.load(type, pointer, mask=mask)])
            else:
                read = b.load(type, pointer, mask=mask)
        elif stride == 0:
            one = b.load(STORED[dtype.name], b.offset(self.pointers[buffer], b.select(
                b.reduce("or", mask), self.value(const(at)), 0), STORED[dtype.name]))
            read = b.splat(one, self.lanes)
            read = b.select(mask, read, zero(type))
        elif condition is None and self.repeats(at) is not None:
            read = self.repeated(buffer, *self.repeats(at), type)
        elif stride == -1:
            read = self.backwards(buffer, rest, type, mask)
        elif stride == 2 and condition is None:
            read = self.every_other(buffer, rest, type)
        elif stride == 2:  # conditions are rarely false
            apart = self.addresses(buffer, at, rest, stride)
            everywhere = b.reduce("and", condition if c.mask is None else b.or_(condition, b.not_(c.mask)))
            read, = b.when(everywhere, lambda: [self.every_other(buffer, rest, type)],
                           lambda: [b.gather(type, apart, mask)])
        else:
            read = b.gather(type, self.addresses(buffer, at, rest, stride), mask)
        return read
