"""Skinny matmul by int4 weights, which are read once, sequentially, and dequantized in registers.

Weights are stored in blocks of 64 output columns, along k: 32 bytes hold column i of a block in their low bits and
column i + 32 in their high ones.  The bytes of a last block of fewer columns hold pairs of adjacent columns
(`ops/nibbles.py`).  A work unit is a block; the sums of x * (q - 8) over each group along k are scaled once, and the
zero is added times the sum of the group's elements of x.
"""

from dataclasses import dataclass

from ..llvm import jit, pool
from ..llvm.values import zero
from ..llvm.features import remembered, targeted
from ..llvm.scalars import STORED
from ..llvm.types import f32, i8, i32, vector
from . import nibbles_digits, nibbles_tiled
from .contraction import Contraction, KernelCall, tile_numbers, written_slots
from .habits import habits
from .nibbles_words import AHEAD, BLOCK, POINTERS, SLOTS, fetch_scales, meant, pairs
from .units import Units

ROWS = 4       # that share dequantized weights
UNROLLED = 4   # elements along k of a step; a group has a multiple of it


@dataclass(frozen=True)
class Nibbles:
    """out[rows, columns] = x[rows, depth] @ int4 weights; `dtype` is that of x, of scales and of zeros [depth / group,
    columns, 2]; that of `out` is float32."""

    rows: int
    columns: int
    depth: int
    group: int
    dtype: str


def plan_nibbles(problem):
    """Plan a matmul; operands are "x", "weight" (uint8), "scales" and "out".

    Example:
        >>> len(plan_nibbles(Nibbles(1, 64, 128, 32, "float32")).steps)
        1
    """
    return _plan(problem, pool.get_num_threads())


@remembered(512)
def _plan(p, threads):
    rows = min(p.rows, ROWS)
    slots = {"scratch_bytes": rows * p.depth * 4, "first": 0, "rows": p.rows, "columns": p.columns, "depth": p.depth,
             "group": p.group, "groups": p.depth // p.group}
    sources = {name: ("pointer", name, 0) for name in POINTERS[:-1]} | {"scratch": ("temp", "scratch", 0)}
    blocks, whole, steps = -(-p.columns // BLOCK), p.columns // BLOCK, []
    temporaries = {"scratch": slots["scratch_bytes"] * threads}
    grain = max(1, min(blocks // (4 * threads), -(-200_000 // (p.rows * p.depth * BLOCK))))
    fast = targeted().is_x86 and targeted().vnni and targeted().width == 512
    if fast and whole and p.dtype == "bfloat16" and p.rows <= nibbles_digits.ROWS:
        row = nibbles_digits.row_bytes(p.depth, slots["groups"])
        own = {name: slots[name] for name in ("depth", "group", "groups")} | {"row_bytes": row}
        places = {"x": sources["x"], "digits": ("temp", "digits", 0)}
        steps.append(KernelCall(nibbles_digits.digit_kernel(), p.rows, p.rows,
                          written_slots(nibbles_digits.DIGIT_SLOTS, own, places)))
        held = {**sources, "scratch": ("temp", "digits", 0)}
        for count in dict.fromkeys((max(1, habits().streams // p.rows), 1)):
            units = (whole - slots["first"]) // count
            if units:
                steps.append(KernelCall(nibbles_digits.product_kernel(p.rows, count), units, max(1, grain // count),
                                  written_slots(SLOTS, {**slots, "scratch_bytes": row}, held)))
                slots["first"] += units * count
        temporaries["digits"] = p.rows * row
    elif whole and p.dtype == "bfloat16" and tile_numbers("bfloat16"):
        kernel = nibbles_tiled.few_kernel(p.rows) if p.rows <= nibbles_tiled.FEW else nibbles_tiled.many_kernel()
        steps.append(KernelCall(kernel, whole, grain, written_slots(SLOTS, slots, sources)))
        slots["first"] = whole
    if blocks > slots["first"]:
        steps.append(KernelCall(nibbles_kernel(p.dtype, rows), blocks - slots["first"], grain,
                          written_slots(SLOTS, slots, sources)))
    return Contraction(tuple(steps), temporaries)


def nibbles_kernel(dtype, rows):
    """Return the address of the kernel for scales of a dtype that takes `rows` rows at a time."""
    return jit.build(f"nibbles {dtype} {rows}", lambda: _text(dtype, rows), ["nibbles"])["nibbles"]


def _text(dtype, rows):
    kernel = Units("nibbles", SLOTS, POINTERS)
    f, s, lanes, stored = kernel.f, kernel.s, kernel.lanes(f32), STORED[dtype]
    scratch = kernel.scratch()
    whole, rest = (_Block(f, s, stored, scratch, rows, *shape)
                   for shape in ((lanes, 2, False), (min(lanes, 8), 1, True)))

    def floats(row):
        """Write the elements of some rows of x as floats; rows past the last repeat it."""
        for r in range(rows):
            source = f.offset(s.x, f.mul(f.minimum(f.add(row, r), f.sub(s.rows, 1)), s.depth), stored)
            target = f.offset(scratch, f.mul(s.depth, 4 * r))
            f.loop(0, s.depth, lanes, [], lambda k, _: f.store(
                f.convert(f.load(vector(stored, lanes), f.offset(source, k, stored)), f32), f.offset(target, k, f32)))

    def unit(number):
        column = f.mul(f.add(number, s.first), BLOCK)
        width = f.minimum(f.sub(s.columns, column), BLOCK)

        def parts(block, row):
            half = f.div(width, 2)
            f.loop(0, half, block.lanes * block.vectors, [], lambda at, _: block.part(column, half, at, row))

        def some(row, _):
            floats(row)
            f.when(f.compare("==", width, BLOCK), lambda: parts(whole, row), lambda: parts(rest, row))

        f.loop(0, s.rows, rows, [], some)

    return kernel.text(unit)


class _Block:
    """Emits the sums of some bytes of a block, for `rows` rows: `vectors` vectors of `lanes` bytes, which hold adjacent
    columns if `paired`."""

    def __init__(self, f, s, stored, x, rows, lanes, vectors, paired):
        self.f, self.s, self.stored, self.x, self.rows, self.lanes, self.vectors, self.paired = (f, s, stored, x, rows,
                                                                                                 lanes, vectors, paired)
        self.kind = vector(f32, lanes)
        self.bytes = vector(i8, lanes)
        self.totals = f.alloca(self.kind, 2 * vectors * rows)

    def part(self, column, half, at, row):
        """Emit the sums of some rows, over all groups; rows past the last one repeat it and are not stored."""
        f, s = self.f, self.s
        count = 2 * self.vectors
        weight = f.offset(f.offset(s.weight, f.div(f.mul(column, s.depth), 2)), at)
        rows = [f.offset(self.x, f.mul(s.depth, 4 * r)) for r in range(self.rows)]
        for k in range(count * self.rows):
            f.store(zero(self.kind), self.total(k))

        def group(number, _):
            first = f.mul(number, s.group)
            line = f.offset(s.scales, f.mul(f.add(f.mul(number, s.columns), column), 2), self.stored)
            if not self.paired:
                fetch_scales(f, self.stored, line, s.columns)
            sums, given = self.products(weight, half, rows, first)
            for j in range(self.vectors):
                for which, (scale, shift) in enumerate(self.scales(line, f.add(at, j * self.lanes))):
                    for r in range(self.rows):
                        k = r * count + 2 * j + which
                        total = f.fma(scale, sums[k], f.load(self.kind, self.total(k)))
                        f.store(f.fma(shift, given[r], total), self.total(k))

        f.loop(0, s.groups, 1, [], group)
        f.loop(0, f.minimum(f.sub(s.rows, row), self.rows), 1, [], lambda r, _: self.keep(r, row, column, at))

    def total(self, k):
        return self.f.offset(self.totals, k * self.kind.bytes)

    def products(self, weight, half, rows, first):
        """The sums of x * (q - 8) over a group, low and high for each vector of bytes and row, and each row's sum of x
        in all lanes."""
        f, s = self.f, self.s
        count = 2 * self.vectors * self.rows

        def some(step, sums):
            for u in range(UNROLLED):
                k = f.add(f.add(first, step), u)
                line = f.offset(weight, f.mul(k, half))
                if u % 2 == 0 and not self.paired:
                    f.prefetch(f.offset(line, AHEAD))
                values = [value for j in range(self.vectors)
                          for value in self.floats(f.load(self.bytes, f.offset(line, j * self.lanes)))]
                factors = [f.splat(f.load(f32, f.offset(row, k, f32)), self.lanes) for row in rows]
                sums = [f.fma(factor, value, sums[r * len(values) + j]) for r, factor in enumerate(factors)
                        for j, value in enumerate(values)]
            return sums

        sums = f.loop(0, s.group, UNROLLED, [zero(self.kind)] * count, some)
        add = lambda at, sums: [f.add(total, f.load(self.kind, f.offset(row, f.add(first, at), f32)))
                                for total, row in zip(sums, rows)]
        given = f.loop(0, s.group, self.lanes, [zero(self.kind)] * self.rows, add)
        return sums, [f.splat(f.reduce("add", total), self.lanes) for total in given]

    def floats(self, found):
        """Low and high values of bytes, less MIDDLE, as floats."""
        low = self.f.cast("zext", found, vector(i32, self.lanes))
        return [meant(self.f, bits) for bits in (low, self.f.lshr(low, 4))]

    def scales(self, line, at):
        """(scale, zero) of the low values of a vector of bytes, and of the high ones."""
        f, lanes = self.f, self.lanes
        if self.paired:
            both = [pairs(f, self.stored, f.offset(line, f.mul(f.add(f.mul(at, 2), j * lanes), 2), self.stored), lanes)
                    for j in range(2)]
            return [[f.shuffle(low, high, range(which, 2 * lanes, 2)) for low, high in zip(*both)]
                    for which in range(2)]
        return [pairs(f, self.stored, f.offset(line, f.mul(f.add(at, start), 2), self.stored), lanes)
                for start in (0, BLOCK // 2)]

    def keep(self, r, row, column, at):
        """Store a row's sums."""
        f, s = self.f, self.s
        line = f.offset(s.out, f.add(f.mul(f.add(row, r), s.columns), column), f32)
        totals = f.offset(self.totals, f.mul(r, 2 * self.vectors * self.kind.bytes))
        found = [f.load(self.kind, f.offset(totals, k * self.kind.bytes)) for k in range(2 * self.vectors)]
        if self.paired:
            turned = [k // 2 + k % 2 * self.lanes for k in range(2 * self.lanes)]
            f.store(f.shuffle(*found, turned), f.offset(line, f.mul(at, 2), f32), align=4)
            return
        for k, total in enumerate(found):
            f.store(total, f.offset(line, f.add(at, k // 2 * self.lanes + k % 2 * (BLOCK // 2)), f32))
