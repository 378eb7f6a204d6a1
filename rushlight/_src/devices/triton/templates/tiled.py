"""A product of matrices by tiles, in Triton, whatever its operands are gathered from.

A program of the grid computes a tile of the result.  Sums of halves are float32, of bytes int32.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from ....compiler.kernel import Buffer
from ....compiler.target import leaf
from ....core import dtypes
from ....core.dtypes import float64, int32
from ...shared.products import Products, Prologue
from ...shared.shapes import SHAPES
from ..scalars import MEMORY, TYPES
from ..step import Module, modules
from .template import Template


class Tile(NamedTuple):
    """Rows, columns and depth of what a program works on at a time, its warps, and how many loads are under way."""

    rows: int
    columns: int
    depth: int
    warps: int = 4
    stages: int = 2


# by the bytes of an element: (least rows, least columns, tile), the first that a result is large enough for
TILES = {
    1: ((128, 128, Tile(128, 128, 64, 8)), (64, 64, Tile(64, 64, 64)), (0, 0, Tile(16, 32, 64))),
    2: ((128, 128, Tile(128, 128, 64, 8)), (64, 64, Tile(64, 64, 64)), (17, 0, Tile(32, 64, 64)),
        (0, 0, Tile(16, 64, 64))),
    4: ((64, 64, Tile(64, 64, 32)), (17, 0, Tile(32, 32, 32)), (0, 0, Tile(16, 64, 32))),
    8: ((0, 0, Tile(16, 16, 16)),),
}


class Tiled(Template):
    """Writes one module.

    ``left`` and ``right``: the dtype of an operand, or its Prologue; ``shape``: a Shape.  Buffers in order: what the
    left operand is read from, then the right one, the result, and what the epilogue reads and writes.
    """

    shape, constants = "[BM, BN]", ("BM", "BN", "BK")

    def __init__(self, shape, left, right, epilogue, tile: Tile):
        self.lies, self.tile, self.epilogue, self.given = shape, tile, epilogue, (left, right)
        self.sides = [self.parts_of(name, given) for name, given in (("a", left), ("b", right))]
        self.out, self.beside = Buffer("out", epilogue.out), [Buffer(o.name, o.dtype) for o in epilogue.operands]
        self.further = [Buffer(s.name, s.dtype) for s in epilogue.further]
        super().__init__([*self.sides[0], *self.sides[1], self.out, *self.beside, *self.further],
                         [self.out, *self.further], sizes=shape.names)
        self.wide |= {"row", "column", "ka", "kb", "place"}
        self.operand = self.dtype_of(left)
        self.sum = (int32 if not self.operand.is_floating_point else dtypes.float32 if self.operand.is_half
                    else self.operand)
        self.kind = TYPES[self.sum.name]

    def dtype_of(self, given):
        return given.value.dtype if isinstance(given, Prologue) else given

    def parts_of(self, name, given) -> list:
        """The buffers that an operand is read from."""
        read = [one.dtype for one in given.leaves] if isinstance(given, Prologue) else [given]
        return [Buffer(f"{name}{k}", dtype) for k, dtype in enumerate(read)]

    # --- text --------------------------------------------------
    def module(self, name: str) -> Module:
        """The module, and what its launches give."""
        self.called()
        for line in ("program = tl.program_id(0).to(units.dtype)",
                     "zero = units * 0",
                     "across = (columns + BN - 1) // BN",
                     "tiles = (rows + BM - 1) // BM * across",
                     "batch = program // tiles",
                     "row = program % tiles // across * BM + tl.arange(0, BM)[:, None]",
                     "column = program % tiles % across * BN + tl.arange(0, BN)[None, :]",
                     "zeros = (row + column) * 0"):
            self.line(line)
        self.lies.begin(self)
        self.lies.column(self)
        self.line(f"sums = tl.zeros([BM, BN], {self.kind})")
        self.block("for k0 in range(0, depth, BK)", self.slice)
        self.scopes[0].mask = self.let("(row < rows) & (column < columns)")
        self.wide.add("sums")
        self.store_all()
        tile = self.tile
        return self.made(name, (("BM", tile.rows), ("BN", tile.columns), ("BK", tile.depth)), tile.warps, tile.stages)

    def slice(self):
        """A slice of both operands, and what it adds."""
        self.line("ka = k0 + tl.arange(0, BK)[None, :]")
        self.line("kb = k0 + tl.arange(0, BK)[:, None]")
        self.scopes[-1].mask = self.let("(row < rows) & (ka < depth)")
        self.lies.left_depth(self)
        left = self.gathered(0, *self.lies.left(self))
        self.scopes[-1].mask = self.let("(kb < depth) & (column < columns)")
        right = self.gathered(1, *self.lies.right(self))
        if self.operand is float64:  # not what units for products compute
            self.line(f"sums = sums + tl.sum({left}[:, :, None] * {right}[None, :, :], 1)")
        else:
            exact = ', input_precision="ieee"' if self.sum.is_floating_point else f", out_dtype={self.kind}"
            self.line(f"sums = tl.dot({left}, {right}, sums{exact})")

    def gathered(self, side: int, places: list, inside: str) -> str:
        """A block of an operand, in the type that units for products take."""
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
        kind = MEMORY[self.dtype_of(given).name]
        if self.sum is int32 and self.dtype_of(self.given[0]) is not self.dtype_of(self.given[1]):
            kind = "tl.float32"  # bytes of two signs: what they add up to is exact in slices
        return found if kind == self.kind else self.let(f"{found}.to({kind})")

    def store_all(self):
        """The result, and what is stored beside it."""
        epilogue, mask = self.epilogue, self.scopes[0].mask
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


class Templates(Products):
    """Plans of products for GPUs."""

    def tile(self, left, rows: int, columns: int) -> Tile:
        dtype = left.value.dtype if isinstance(left, Prologue) else left
        return next(tile for least, few, tile in TILES[dtype.itemsize] if rows >= least and columns >= few)

    def units(self, tile, rows: int, columns: int) -> int:
        return -(-rows // tile.rows) * -(-columns // tile.columns)

    def written(self, shape, left, right, epilogue, tile) -> int:
        kind, *given = shape
        name = "p" + hashlib.sha256(repr((shape, left, right, epilogue, tile)).encode()).hexdigest()[:12]
        return modules.number(Tiled(SHAPES[kind](*given), left, right, epilogue, tile).module(name))
