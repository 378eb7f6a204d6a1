"""Tiled matmul in WGSL, for any way of gathering its operands.

A workgroup of 16 x 16 threads computes a tile of the result.  Slices of both operands are in workgroup memory, and each
thread has some rows and columns of the tile in variables.  Accumulators are float32 for 16-bit floats, int32 for int8.

A ``Shape`` gives the offsets of operands' and results' elements; its numbers are arguments of the launch, so that one
module serves all sizes.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from ....compiler.kernel import Buffer
from ....compiler.target import leaf
from ....core import dtypes
from ....core.dtypes import int32
from ...shared.products import Products, Prologue
from ...shared.shapes import SHAPES
from ...shared.writer import Writer
from ..emit import Emitter
from ..scalars import TYPES, convert
from ..step import Module, modules, refuse_turns

SIDE = 16  # threads along each side of a workgroup
DEPTH = 16  # of a slice of the operands


class Tile(NamedTuple):
    """How much of the result a workgroup computes: ``each`` rows and columns a thread."""

    each: int

    @property
    def size(self) -> int:
        return SIDE * self.each


SMALL, LARGE = Tile(1), Tile(4)


def tile_for(rows: int, columns: int) -> Tile:
    """The tile for a result of this size: small ones are spread over more workgroups."""
    return LARGE if min(rows, columns) >= 32 and rows * columns >= 64 * 64 else SMALL


class Put(NamedTuple):
    """A store as the emitter writes it."""

    buffer: Buffer
    combine: str = ""


class Tiled(Emitter):
    """Writes one module.

    ``left`` and ``right``: the dtype of an operand, or its Prologue; ``shape``: a Shape.  Buffers in order: what the
    left operand is read from, then the right one, the result, and what the epilogue reads and writes.
    """

    def __init__(self, shape, left, right, epilogue, tile: Tile, features):
        Writer.__init__(self)
        self.features, self.head, self.constants, self.meets = features, [], {}, False
        self.shape, self.tile, self.epilogue = shape, tile, epilogue
        self.sides = [self.parts_of(name, given) for name, given in (("a", left), ("b", right))]
        self.given = left, right
        self.out = Buffer("out", epilogue.out)
        self.beside = [Buffer(o.name, o.dtype) for o in epilogue.operands]
        self.further = [Buffer(s.name, s.dtype) for s in epilogue.further]
        self.written = {self.out, *self.further}
        self.buffers = [*self.sides[0], *self.sides[1], self.out, *self.beside, *self.further]
        first = getattr(left, "value", None)
        operand = first.dtype if first is not None else left
        whole = not operand.is_floating_point
        self.sum = int32 if whole else dtypes.float32 if operand.is_half else operand
        self.kind = self.type(self.sum)
        self.line("let none = words[0] >> 31u;")
        for k, buffer in enumerate(self.buffers):
            self.names[buffer] = f"b{k}"
            self.line(f"let o{k} = i32(words[{1 + k}]);")
            self.declare(k, buffer)
        for k, name in enumerate(shape.names, 1 + len(self.buffers)):
            self.line(f"let {name} = i32(words[{k}]);")

    def parts_of(self, name, given) -> list:
        """The buffers that an operand is read from."""
        read = [one.dtype for one in given.leaves] if isinstance(given, Prologue) else [given]
        return [Buffer(f"{name}{k}", dtype) for k, dtype in enumerate(read)]

    def home(self, e, x):
        return self.scopes[-1]

    # --- text --------------------------------------------------
    def module(self, name: str) -> Module:
        """The module, and what its launches bind."""
        size = self.tile.size
        self.head += [f"var<workgroup> s{name}: array<{self.passing(given)}, {DEPTH * size}>;"
                      for name, given in zip("ab", self.given)]
        self.line("let unit = i32(wid.x + wid.y * 65535u);")
        self.block("if (unit < i32(words[0]))", self.group)
        text = self.whole(SIDE * SIDE, False)
        return Module(name, text, tuple(b.dtype.itemsize for b in self.buffers), (), False, 1, False)

    def passing(self, given) -> str:
        """The type of an operand's elements in workgroup memory."""
        dtype = given.value.dtype if isinstance(given, Prologue) else given
        return "f16" if self.is_half(dtype.name) else self.kind

    def group(self):
        """One tile of the result."""
        size, each = self.tile.size, self.tile.each
        for line in (f"let across = (columns + {size - 1}) / {size};",
                     f"let tiles = (rows + {size - 1}) / {size} * across;",
                     "let batch = unit / tiles; let tile = unit % tiles;",
                     f"let row0 = tile / across * {size}; let column0 = tile % across * {size};",
                     "let x = i32(lid) % 16; let y = i32(lid) / 16;",
                     f"let da = i32(lid) % {DEPTH}; let ra = i32(lid) / {DEPTH};",
                     f"let db = i32(lid) / {size}; let cb = i32(lid) % {size};",
                     "let column = column0 + cb;"):
            self.line(line)
        self.shape.begin(self)
        self.shape.column(self)
        zero = {"f32": "0.0f", "f64": "0.0lf", "i32": "0i"}[self.kind]
        for i in range(each):
            for j in range(each):
                self.line(f"var s{i}_{j} = {zero};")
        self.block(f"for (var k0 = 0; k0 < depth; k0 += {DEPTH})", self.slice)
        sums = ", ".join(f"s{i}_{j}" for i in range(each) for j in range(each))
        self.line(f"var sums = array<{self.kind}, {each * each}>({sums});")
        head = f"for (var at = 0; at < {each * each}; at++)"
        self.block(head, lambda: self.block(
            f"if (row0 + y + at / {each} * 16 < rows && column0 + x + at % {each} * 16 < columns)", self.store_one))

    def slice(self):
        """A slice of both operands, and what it adds."""
        size, each = self.tile.size, self.tile.each
        zero = {"f32": "0.0f", "f64": "0.0lf", "i32": "0i"}[self.kind]
        put = ["f32_to_f16" if self.passing(given) == "f16" else "" for given in self.given]
        for t in range(each):
            self.line(f"var a{t} = {zero};")
        self.line("{")
        self.line("let ka = k0 + da;")
        self.shape.left_depth(self)
        for t in range(each):
            self.block(f"if (ka < depth && row0 + ra + {16 * t} < rows)", lambda t=t: self.gather(0, f"a{t}", 16 * t))
        self.line("}")
        for t in range(each):
            self.line(f"sa[da * {size} + ra + {16 * t}] = {put[0]}(a{t});")
        for t in range(each):
            self.line(f"var b{t}_ = {zero};")
            step = t * SIDE * SIDE // size
            self.line("{")
            self.line(f"let kb = k0 + db + {step};")
            self.block("if (kb < depth && column < columns)", lambda t=t: self.gather(1, f"b{t}_"))
            self.line("}")
            self.line(f"sb[(db + {step}) * {size} + cb] = {put[1]}(b{t}_);")
        self.line("workgroupBarrier();")
        self.block(f"for (var k = 0; k < {DEPTH}; k++)", self.add)
        self.line("workgroupBarrier();")

    def gather(self, side: int, name: str, further=0):
        """An element of an operand into a variable."""
        if side == 0:
            self.line(f"let row = row0 + ra + {further};")
        places, inside = self.shape.left(self) if side == 0 else self.shape.right(self)
        values = [self.from_memory(buffer, f"o{self.names[buffer][1:]} + {place}")
                  for buffer, place in zip(self.sides[side], places)]
        given = self.given[side]
        if inside:
            self.block(f"if ({inside})", lambda: self.line(f"{name} = {self.computed(given, values)};"))
            if self.shape.border:
                self.line(f"if (!({inside})) {{ {name} = {self.kind}(border); }}")
        else:
            self.line(f"{name} = {self.computed(given, values)};")

    def computed(self, given, values) -> str:
        """An element in the type of the sums, from what is read."""
        if not isinstance(given, Prologue):
            return convert(values[0], given, self.sum)
        for one, value in zip(given.leaves, values):
            self.scopes[-1].values[one] = self.let(value)
        found, dtype = self.value(given.value), given.value.dtype
        if dtype.is_half:  # rounded as in memory
            kind = "half" if dtype.name == "float16" else "brain"
            found = f"{kind}_to_f32(f32_to_{kind}({found}))"
        return convert(found, dtype, self.sum)

    def add(self):
        size, each = self.tile.size, self.tile.each
        for i in range(each):
            for name, letter, along, given in (("p", "a", "y", self.given[0]), ("q", "b", "x", self.given[1])):
                read = f"s{letter}[k * {size} + {along} + {16 * i}]"
                self.line(f"let {name}{i} = {f'f32({read})' if self.passing(given) == 'f16' else read};")
        for i in range(each):
            for j in range(each):
                self.line(f"s{i}_{j} = s{i}_{j} + p{i} * q{j};")

    def store_one(self):
        """Store one element of the result and of the further results of the epilogue."""
        each, epilogue = self.tile.each, self.epilogue
        self.line(f"let row = row0 + y + at / {each} * 16; let column = column0 + x + at % {each} * 16;")
        place, along = self.shape.result(self)
        self.line(f"let place = {place};")
        if epilogue.value is None:
            self.store(Put(self.out), "place", convert("sums[at]", self.sum, epilogue.out))
            return
        values = self.scopes[-1].values
        values[epilogue.sums] = self.let(convert("sums[at]", self.sum, epilogue.sums.dtype))
        for operand, buffer in zip(epilogue.operands, self.beside):
            first = "o" + self.names[buffer][1:]
            where = {"one": "0", "element": "place", **along}[operand.along]
            values[leaf(operand.name, operand.dtype)] = self.let(self.from_memory(buffer, f"{first} + {where}"))
        found = [self.value(e) for e in (epilogue.value, *(s.value for s in epilogue.further))]
        results = zip((self.out, *self.further), found, (epilogue.value, *(s.value for s in epilogue.further)))
        for buffer, text, e in results:
            self.store(Put(buffer), "place", text if TYPES[e.dtype.name] == TYPES[buffer.dtype.name] else convert(
                text, e.dtype, buffer.dtype))


class Templates(Products):
    """Plans for a device of these features."""

    def __init__(self, features: frozenset):
        super().__init__()
        self.features = features

    def tile(self, left, rows: int, columns: int) -> Tile:
        return tile_for(rows, columns)

    def plan(self, shape, left, right, epilogue, operands, sizes, batch, numbers, spans):
        """RuntimeError for a depth at which the driver leaves a loop early."""
        refuse_turns(-(-sizes[2] // DEPTH), self.features, f"a product of depth {sizes[2]}",
                     "compute it in parts, or on the processor")
        return super().plan(shape, left, right, epilogue, operands, sizes, batch, numbers, spans)

    def units(self, tile, rows: int, columns: int) -> int:
        return -(-rows // tile.size) * -(-columns // tile.size)

    def written(self, shape: tuple, left, right, epilogue, tile) -> int:
        kind, *given = shape
        made = Tiled(SHAPES[kind](*given), left, right, epilogue, tile, self.features)
        name = "p" + hashlib.sha256(repr((shape, left, right, epilogue, tile)).encode()).hexdigest()[:12]
        return modules.number(made.module(name))
