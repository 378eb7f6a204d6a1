"""Tiled matmul in Triton, for any way of gathering its operands.

A program of the grid computes a tile of the result.  Accumulators are float32 for 16-bit floats, int32 for int8.
"""

from __future__ import annotations

from typing import NamedTuple

from ....compiler.kernel import Buffer
from ....compiler.target import leaf
from ....core import dtypes
from ....core.dtypes import float64, int32
from ...shared.products import Prologue
from ..scalars import MEMORY, TYPES
from ..step import Module
from .template import Template


class Tile(NamedTuple):
    """The tile of a program: rows, columns and depth per step, warps, and pipeline stages of loads.

    ``splits``: parts of the depth (split-K), which other programs compute and another launch adds up.  ``persistent``:
    whether a fixed number of programs, as many as the GPU holds, loop over all tiles.
    """

    rows: int
    columns: int
    depth: int
    warps: int = 4
    stages: int = 2
    splits: int = 1
    persistent: bool = False


TOGETHER = 8  # rows of tiles that are computed concurrently, since they read the same columns
JOINED = 32, 64  # of what a program adds up of parts


class Codes(NamedTuple):
    """A float8 operand, given as encodings that tensor cores read: its ``format``; its Triton type ``kind``; whether
    accumulation may lose precision (``fast``)."""

    format: str
    kind: str
    fast: bool

    dtype = property(lambda self: getattr(dtypes, self.format))


def dtype_of(given):
    """The dtype of an operand: a dtype, codes, or the value of a prologue."""
    return given.value.dtype if isinstance(given, Prologue) else given.dtype if isinstance(given, Codes) else given


class Tiled(Template):
    """Emit one module.

    ``role``: "whole"; "part" if a launch computes parts of the depth; "join", which adds these up; "finish", which
    computes the epilogue of sums that have the strides of the result, in the dtype of the left operand.

    ``left`` and ``right``: the dtype of an operand, its Codes, or its Prologue; ``shape``: a Shape.  Buffers in order:
    what the left operand is read from, then the right one, the result, and what the epilogue reads and writes.
    """

    shape, constants = "[BM, BN]", ("BM", "BN", "BK", "SPLITS")

    def __init__(self, shape, left, right, epilogue, tile: Tile, role="whole", precision="ieee"):
        self.lies, self.tile, self.epilogue, self.given = shape, tile, epilogue, (left, right)
        self.sides = [self.parts_of(name, given) for name, given in (("a", left), ("b", right))]
        self.out, self.beside = Buffer("out", epilogue.out), [Buffer(o.name, o.dtype) for o in epilogue.operands]
        self.further = [Buffer(s.name, s.dtype) for s in epilogue.further]
        self.operand, self.role, self.precision = dtype_of(left), role, precision
        self.sum = (int32 if not self.operand.is_floating_point else dtypes.float32 if self.operand.is_half
                    else self.operand)
        self.kind = TYPES[self.sum.name]
        self.parts = Buffer("parts", self.operand if role == "finish" else self.sum)
        read = [self.parts] if role in ("join", "finish") else [*self.sides[0], *self.sides[1]]
        made = [self.parts] if role == "part" else [self.out, *self.further]
        super().__init__([*read, *([self.parts] if role == "part" else [self.out, *self.beside, *self.further])], made,
                         sizes=(*shape.names, "total"))
        self.wide |= {"row", "column", "ka", "kb", "place"}

    def parts_of(self, name, given) -> list:
        """The buffers that an operand is read from."""
        read = [one.dtype for one in given.leaves] if isinstance(given, Prologue) else [
            dtypes.uint8 if isinstance(given, Codes) else given]
        return [Buffer(f"{name}{k}", dtype) for k, dtype in enumerate(read)]

    # --- text --------------------------------------------------
    def module(self, name: str) -> Module:
        """The module, and what its launches give."""
        self.called()
        self.lines("zero = units * 0",
                   "across = (columns + BN - 1) // BN",
                   "down = (rows + BM - 1) // BM",
                   "tiles = down * across")
        if self.tile.persistent and self.role == "whole":
            self.block("for one in range(tl.program_id(0), total, tl.num_programs(0))",
                       lambda: self.computed_tile("one + zero"))
        else:
            self.computed_tile("tl.program_id(0).to(units.dtype)")
        tile, blocks = self.tile, JOINED if self.role in ("join", "finish") else self.tile[:2]
        constants = (("BM", blocks[0]), ("BN", blocks[1]), ("BK", tile.depth), ("SPLITS", tile.splits))
        return self.made(name, constants, tile.warps, tile.stages)

    def computed_tile(self, program: str):
        """One tile of the result, or a part of it.  Tiles are ordered by groups of rows, so that what they read stays
        in the L2 cache."""
        self.lines(f"program = {program}",
                   *(("part = program % SPLITS", "program = program // SPLITS") if self.role == "part" else ()),
                   "batch = program // tiles",
                   "inner = program % tiles",
                   f"group = inner // (across * {TOGETHER}) * {TOGETHER}",
                   f"high = tl.minimum(down - group, {TOGETHER})",
                   f"row = (group + inner % (across * {TOGETHER}) % high) * BM + tl.arange(0, BM)[:, None]",
                   f"column = inner % (across * {TOGETHER}) // high * BN + tl.arange(0, BN)[None, :]",
                   "zeros = (row + column) * 0")
        self.lies.begin(self)
        self.lies.column(self)
        self.line(f"sums = tl.zeros([BM, BN], {self.kind})")
        self.inside = self.let("(row < rows) & (column < columns)")
        if self.role == "join":
            self.block("for part in range(0, SPLITS)", lambda: self.line(
                f"sums = sums + tl.load({self.part_at()}, mask={self.inside}, other=0)"))
        elif self.role == "finish":
            self.scopes[-1].mask = self.inside
            self.line(f"place = {self.lies.result(self)[0]}")
            found = self.from_memory(self.parts, "place", self.inside)
            self.line(f"sums = {self.converted(found, self.operand, self.sum)}")
        elif self.role == "part":
            self.lines("deep = ((depth + SPLITS - 1) // SPLITS + BK - 1) // BK * BK",
                       "deepest = tl.minimum((part + 1) * deep, depth)")
            self.block("for k0 in range(part * deep, deepest, BK)", self.slice)
        else:
            self.block("for k0 in range(0, depth, BK)", self.slice)
        self.scopes[-1].mask = self.inside
        self.wide.add("sums")
        if self.role == "part":
            self.line(f"tl.store({self.part_at()}, sums, mask={self.inside})")
        else:
            self.store_all()

    def part_at(self) -> str:
        """The places of sums of a part."""
        return f"{self.names[self.parts]} + ((batch * SPLITS + part) * rows + row) * columns + column"

    def slice(self):
        """A slice of both operands, and what it adds."""
        self.line("ka = k0 + tl.arange(0, BK)[None, :]")
        self.line("kb = k0 + tl.arange(0, BK)[:, None]")
        self.scopes[-1].mask = self.let("(row < rows) & (ka < depth)")
        self.lies.left_depth(self)
        left = self.gathered(0, *self.lies.left(self))
        self.scopes[-1].mask = self.let("(kb < depth) & (column < columns)")
        right = self.gathered(1, *self.lies.right(self))
        if self.operand is float64:  # tensor cores do not compute it here
            self.line(f"sums = sums + tl.sum({left}[:, :, None] * {right}[None, :, :], 1)")
        else:
            exact = (f', input_precision="{self.precision}"' if self.sum.is_floating_point
                     else f", out_dtype={self.kind}")
            if isinstance(self.given[0], Codes):
                exact = "" if self.given[0].fast else ", max_num_imprecise_acc=BK"
            self.line(f"sums = tl.dot({left}, {right}, sums{exact})")

    def gathered(self, side: int, places: list, inside: str) -> str:
        """Return a block of an operand, in the type that tensor cores take."""
        mask, given = self.scopes[-1].mask, self.given[side]
        there = self.let(f"{mask} & {inside}") if inside else mask
        values = [self.let(self.from_memory(buffer, place, there))
                  for buffer, place in zip(self.sides[side], places)]
        found = values[0]
        if isinstance(given, Prologue):
            self.scopes[-1].values.update(zip(given.leaves, values))
            found = self.tensor(self.value(given.value), TYPES[given.value.dtype.name])
            found = self.let(f"tl.where({there}, {found}, 0)")  # what is computed of nothing need not be 0
        elif inside and self.lies.border:
            found = self.let(f"tl.where({mask} & ({there} == 0), border.to({found}.dtype), {found})")
        if isinstance(given, Codes):
            return self.let(f"{found}.to({given.kind}, bitcast=True)")
        kind = MEMORY[dtype_of(given).name]
        if self.sum is int32 and dtype_of(self.given[0]) is not dtype_of(self.given[1]):
            kind = "tl.float32"  # bytes of two signs: what they add up to is exact in slices
        return found if kind == self.kind else self.let(f"{found}.to({kind})")

    def store_all(self):
        """Store the result and the further results of the epilogue."""
        epilogue, mask = self.epilogue, self.inside
        place, along = self.lies.result(self)
        self.line(f"place = {place}")
        if epilogue.value is None:
            self.stored(self.out, "sums", self.sum, mask)
            return
        values = self.scopes[-1].values
        values[epilogue.sums] = self.let(self.converted("sums", self.sum, epilogue.sums.dtype))
        masks = {"row": "row < rows", "column": "column < columns", "element": mask, "one": ""}
        for operand, buffer in zip(epilogue.operands, self.beside):
            where = {"one": "0", "element": "place", **along}[operand.along]
            inside = "column < columns" if where == "column" else masks[operand.along] if where != "channel" else (
                "row < rows")
            self.wide |= {where} & {"channel"}
            values[leaf(operand.name, operand.dtype)] = self.let(self.from_memory(buffer, where, inside))
        results = epilogue.value, *(s.value for s in epilogue.further)
        found = [self.tensor(self.value(e), self.type(e.dtype)) for e in results]
        for buffer, text, e in zip((self.out, *self.further), found, results):
            self.stored(buffer, text, e.dtype, mask)

    def stored(self, buffer, text, dtype, mask):
        """A store in the type of memory."""
        text = self.converted(text, dtype, buffer.dtype)
        kind = MEMORY[buffer.dtype.name]
        text = text if kind == self.type(buffer.dtype) else f"{text}.to({kind})"
        self.line(f"tl.store({self.names[buffer]} + place, {text}, mask={mask})")
