"""Top-k and sort: the first `count` elements of each sorted row, and their indices.

Elements become entries (entries.py), which are sorted (radix.py). For a small `count`, only entries below the last of
the current top-k are kept. 64-bit elements are sorted by their difference from the least of their row; if that takes
more than 32 bits, by its lower half first and then by the upper one.
"""

from dataclasses import dataclass

from ..llvm import jit, pool
from ..llvm.builder import Module
from ..llvm.values import constant, poison
from ..llvm.features import remembered, targeted
from ..llvm.scalars import STORED
from ..llvm.types import i32, i64, vector
from . import radix
from .blocked import KERNEL, Slots
from .contraction import Contraction, KernelCall, written_slots
from .entries import LAST, entry, is_wide, ordered, place_of
from .radix import padding, write_sort

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
SLOTS = ("x", "values", "places", "scratch", "size", "count", "most", "room_at", "order_at", "counts_at",
         "scratch_bytes")
MOST_PLACES = 1 << 31
UNROLL = 4   # vectors that are compared before the first is kept
FEW = 4      # least ratio of row size to `count` for which only elements below a limit are kept


@dataclass(frozen=True)
class Selection:
    """The first `count` of `size` elements of each of `rows` sorted rows."""

    rows: int
    size: int
    count: int
    dtype: str
    descending: bool


def plan_selection(problem):
    """Plan a selection; operands are "x" [rows, size], "values" [rows, count] and "places" [rows, count] int64.

    Equal elements stay in the order in which they are found; NaN counts as the largest.

    Example:
        >>> len(plan_selection(Selection(8, 100, 5, "float32", True)).steps)
        1
    """
    return _planned(problem, pool.get_num_threads())


@remembered(1024)
def _planned(p, threads):
    limited = not is_wide(p.dtype) and p.count * FEW <= p.size and p.size > radix.MOST_COUNTED
    lanes = targeted().lanes(8)
    held = min(p.size, 2 * p.count + radix.MOST_COUNTED // 2) if limited else p.size
    room = -(-8 * (held + (1 + UNROLL) * padding(lanes)) // 64) * 64
    slots = {"size": p.size, "count": p.count, "most": held, "room_at": room, "order_at": 2 * room,
             "counts_at": (3 if is_wide(p.dtype) else 2) * room}
    slots["scratch_bytes"] = slots["counts_at"] + radix.COUNTS_BYTES
    kernel = selection_kernel(p.dtype, p.descending, limited)
    sources = {"scratch": ("temp", "scratch", 0), **{name: ("pointer", name, 0) for name in ("x", "values", "places")}}
    step = KernelCall(kernel, p.rows, max(1, 4096 // p.size), written_slots(SLOTS, slots, sources))
    return Contraction((step,), {"scratch": slots["scratch_bytes"] * threads})


def selection_kernel(dtype, descending, limited):
    """Return the address of the kernel that sorts rows, one per work unit."""
    return jit.build(f"select {dtype} {descending} {limited}", lambda: _text(dtype, descending, limited),
                     ["select"])["select"]


def _text(dtype, descending, limited):
    module = Module()
    writer = _Rows(module, dtype, descending)
    f = writer.f
    args, begin, end, worker = f.parameters
    s = Slots(f, args, SLOTS, ("x", "values", "places", "scratch"))
    writer.size, writer.count = s.size, s.count
    scratch = f.offset(s.scratch, f.mul(worker, s.scratch_bytes))
    writer.entries, writer.room = scratch, f.offset(scratch, s.room_at)
    writer.order, writer.counts = f.offset(scratch, s.order_at), f.offset(scratch, s.counts_at)
    element = STORED[dtype]
    x, values, places = s.x, s.values, s.places
    most = s.most if limited else None

    def row(r, _):
        writer.x = f.offset(x, f.mul(r, writer.size), element)
        target = f.mul(r, writer.count)
        if is_wide(dtype):
            writer.write_wide(f.offset(values, target, element), f.offset(places, target, i64))
        else:
            found = writer.limited(most) if limited else writer.whole()
            writer.write(found, f.offset(values, target, element), f.offset(places, target, i64))

    f.loop(begin, end, 1, [], row)
    f.ret()
    return module.text()


class _Rows:
    """Emits the selection of one row, whose elements are at `x`."""

    def __init__(self, module, dtype, descending):
        self.dtype, self.descending, self.element = dtype, descending, STORED[dtype]
        self.lanes = module.features.lanes(8)
        self.kind = vector(i64, self.lanes)
        self.sort = write_sort(module, self.lanes)
        self.f = module.function("select", KERNEL)

    def each(self, count, carried, body, step=1):
        """Loop `body(first, mask, carried)` over vectors of [0, count): full ones, and a last one under a mask."""
        f, lanes = self.f, self.lanes
        low = constant(i64, 0)
        if step > 1:
            whole = f.and_(count, -step * lanes)
            carried = f.loop(low, whole, step * lanes, carried,
                             lambda at, c: body([f.add(at, k * lanes) for k in range(step)], None, c))
            low = whole
        whole = f.and_(count, -lanes)
        carried = f.loop(low, whole, lanes, carried, lambda at, c: body([at], None, c))
        return f.loop(whole, count, lanes, carried, lambda at, c: body([at], f.lane_mask(f.sub(count, at), lanes), c))

    def places_at(self, at):
        """The indices of a vector's elements."""
        return self.f.add(self.f.splat(at, self.lanes), self.f.lane_indices(self.lanes))

    def keys_at(self, at, mask):
        """The keys of a vector of the row."""
        found = self.f.load(vector(self.element, self.lanes), self.f.offset(self.x, at, self.element), mask=mask)
        return ordered(self.f, found, self.dtype, self.descending)

    def sorted(self, entries, count):
        """Sort entries and return their address."""
        return self.f.call(self.sort, [entries, self.room, self.counts, count])

    def whole(self):
        """All entries of the row, sorted."""
        f = self.f

        def fill(firsts, mask, _):
            for at in firsts:
                f.store(entry(f, self.keys_at(at, mask), self.places_at(at)), f.offset(self.entries, at, i64))

        self.each(self.size, [], fill, UNROLL)
        return self.sorted(self.entries, self.size)

    def limited(self, most):
        """The first `count` entries, sorted, of no more than `most` that are held at a time."""
        f = self.f

        def keep(entries, below, held):
            packed = f.call(f"llvm.experimental.vector.compress.{self.kind.mangled}",
                            [entries, below, poison(self.kind)], self.kind)
            f.store(packed, f.offset(self.entries, held, i64))
            return f.add(held, f.reduce("add", f.convert(below, i64)))

        def less(held, limit):
            """Keep only the first `count` of the held entries; return their number and the last of them."""
            found = self.sorted(self.entries, held)
            self.copied(found)
            return [self.count, f.load(i64, f.offset(self.entries, f.sub(self.count, 1), i64))]

        def look(firsts, mask, state):
            held, limit = state
            entries = [entry(f, self.keys_at(at, mask), self.places_at(at)) for at in firsts]
            below = [f.compare("<", e, f.splat(limit, self.lanes)) for e in entries]
            below = below if mask is None else [f.and_(m, mask) for m in below]
            some = below[0]
            for m in below[1:]:
                some = f.or_(some, m)

            def kept():
                now = held
                for e, m in zip(entries, below):
                    now = keep(e, m, now)
                return f.when(f.compare(">", now, most), lambda: less(now, limit), lambda: [now, limit])

            return f.when(f.reduce("or", some), kept, lambda: [held, limit])

        held, _ = self.each(self.size, [constant(i64, 0), constant(i64, LAST)], look, UNROLL)
        return self.sorted(self.entries, held)

    def copied(self, found):
        """Copy the first `count` entries back to where entries are collected."""
        f = self.f
        f.when(f.compare("!=", found, self.entries), lambda: f.copy_bytes(self.entries, found, f.mul(self.count, 8)))

    def write(self, found, values, places):
        """Write the first `count` elements, by their sorted entries."""
        f = self.f

        def some(firsts, mask, _):
            at, = firsts
            self.put(place_of(f, f.load(self.kind, f.offset(found, at, i64), mask=mask)), at, mask, values, places)

        self.each(self.count, [], some)

    def put(self, where, at, mask, values, places):
        """Write a vector of results: the row's elements at these indices, and the indices."""
        f = self.f
        f.store(where, f.offset(places, at, i64), mask=mask)
        read = f.gather(vector(self.element, self.lanes), f.offset(self.x, where, self.element), mask)
        f.store(read, f.offset(values, at, self.element), mask=mask)

    # -- elements of 64 bits -------------------------------------------------------------------------------------------

    def write_wide(self, values, places):
        """Sort by the lower half of the keys minus the least, then by the upper half; the second entries hold indices
        into the first order."""
        f = self.f
        least, largest = self.bounds()
        self.least = f.splat(least, self.lanes)
        self.by_half(0, self.entries)
        found = self.sorted(self.entries, self.size)

        def both():
            f.copy_bytes(self.order, found, f.mul(self.size, 8))
            self.by_half(32, self.entries)
            again = self.sorted(self.entries, self.size)

            def some(firsts, mask, _):
                at, = firsts
                second = place_of(f, f.load(self.kind, f.offset(again, at, i64), mask=mask))
                first = f.gather(self.kind, f.offset(self.order, second, i64), mask)
                self.put(place_of(f, first), at, mask, values, places)

            self.each(self.count, [], some)

        f.when(f.compare("==", f.lshr(f.sub(largest, least), 32), 0), lambda: self.write(found, values, places), both)

    def bounds(self):
        """The least and the largest key of the row."""
        f, kind = self.f, self.kind

        def more(firsts, mask, bounds):
            key = self.keys_at(firsts[0], mask)
            low, high = (key, key) if mask is None else (f.select(mask, key, bound) for bound in bounds)
            return [f.minimum(bounds[0], low), f.maximum(bounds[1], high)]

        low, high = self.each(self.size, [constant(kind, LAST), constant(kind, -LAST - 1)], more)
        return f.reduce("min", low), f.reduce("max", high)

    def by_half(self, shift, target):
        """Write entries of 32 bits of the keys: in the row's order, or (the upper half) in the first sorted order."""
        f = self.f

        def fill(firsts, mask, _):
            at, = firsts
            if shift:
                where = place_of(f, f.load(self.kind, f.offset(self.order, at, i64), mask=mask))
                read = f.gather(vector(self.element, self.lanes), f.offset(self.x, where, self.element), mask)
                key = ordered(f, read, self.dtype, self.descending)
            else:
                key = self.keys_at(at, mask)
            # unsigned, brought to the order of signed ones
            half = f.xor(f.convert(f.lshr(f.sub(key, self.least), shift), i32), -1 << 31)
            f.store(entry(f, half, self.places_at(at)), f.offset(target, at, i64))

        self.each(self.size, [], fill)
