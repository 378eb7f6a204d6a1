"""Sorting of rows in WGSL: a bitonic network (Batcher, 1968) over pairs of a key and the original index.

Keys are integers in the order of elements, so that the order of pairs is total, and the sort stable.  Rows of up to
``LOCAL`` pairs are sorted in workgroup memory, several at once if they are short.  Longer rows use temporaries: their
parts are sorted first, then one launch follows for each distance between compared pairs, up to distances within parts.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from ....compiler.kernel import Buffer
from ....core.dtypes import ALL, int32, int64
from ...shared.products import CompiledKernel, Contraction
from ...shared.writer import Writer
from ..emit import THREADS, Emitter
from ..scalars import literal
from ..step import Module, modules
from .tiled import Put

DTYPES = {dtype.name: dtype for dtype in ALL}
LOCAL = 1024  # pairs in workgroup memory
WIDE = "int64", "float64"  # whose keys have 64 bits
NUMBERS = "rows", "size", "count", "wide", "stage", "distance"


class Role(NamedTuple):
    """The role of a kernel: "rows": all of it; "begin": fills temporaries with sorted parts; "step": compares pairs at
    a distance; "merge": the distances within parts; "end": results from temporaries."""

    name: str
    dtype: str
    descending: bool


class Sorting(Emitter):
    """Writes one module."""

    def __init__(self, role: Role, features):
        Writer.__init__(self)
        self.features, self.head, self.constants, self.meets, self.role = features, [], {}, False, role
        wide = role.dtype in WIDE
        self.key, self.most = ("i64", literal((1 << 63) - 1, "i64")) if wide else ("i32", literal((1 << 31) - 1, "i32"))
        self.x, self.values = (Buffer(name, DTYPES[role.dtype]) for name in ("x", "values"))
        self.places, self.keys = Buffer("places", int64), Buffer("keys", int64 if wide else int32)
        self.found = Buffer("found", int32)
        self.buffers = {"rows": [self.x, self.values, self.places], "begin": [self.x, self.keys, self.found],
                        "step": [self.keys, self.found], "merge": [self.keys, self.found],
                        "end": [self.x, self.found, self.values, self.places]}[role.name]
        self.written = {self.keys, self.found, self.values, self.places}
        self.line("let none = words[0] >> 31u;")
        for k, buffer in enumerate(self.buffers):
            self.names[buffer] = f"b{k}"
            self.line(f"let o{k} = i32(words[{1 + k}]);")
            self.declare(k, buffer)
        for k, name in enumerate(NUMBERS, 1 + len(self.buffers)):
            self.line(f"let {name} = i32(words[{k}]);")

    @property
    def spread(self) -> bool:
        """Whether each thread has a unit of its own."""
        return self.role.name in ("step", "end")

    def module(self) -> Module:
        """The module, and what its launches bind."""
        self.head.append(f"fn after(a: {self.key}, i: i32, b: {self.key}, j: i32) -> bool "
                         "{ return a > b || (a == b && i > j); }")
        if not self.spread:
            self.head += [f"var<workgroup> keys: array<{self.key}, {LOCAL}>;",
                          f"var<workgroup> found: array<i32, {LOCAL}>;"]
        if self.role.name in ("rows", "begin"):
            self.head.append(self.key_of())
        number = f"i32((wid.x + wid.y * 65535u) * {THREADS}u + lid)" if self.spread else "i32(wid.x + wid.y * 65535u)"
        self.line(f"let unit = {number};")
        self.block("if (unit < i32(words[0]))", getattr(self, f"role_{self.role.name}"))
        text = self.whole(THREADS, False)
        name = "s" + hashlib.sha256(repr(self.role).encode()).hexdigest()[:12]
        return Module(name, text, tuple(b.dtype.itemsize for b in self.buffers), (), False,
                      THREADS if self.spread else 1, False)

    def key_of(self) -> str:
        """The function from an element to its key: every NaN is above all else, zeros are equal."""
        kind, turned = self.type(self.x.dtype), "~found" if self.role.descending else "found"
        if kind in ("f32", "f64"):
            sign, shift = (literal(-1 << 31, "i32"), "31u") if kind == "f32" else (literal(-1 << 63, "i64"), "63u")
            found = f"""  let bits = bitcast<{self.key}>(x);
  var found = bits ^ ((bits >> {shift}) & {self.most});
  if (bits == {sign}) {{ found = {self.key}(0); }}
  if (is_nan_{kind}(x)) {{ found = {self.most}; }}"""
        else:
            found = f"  let found = {f'select(0i, 1i, x)' if kind == 'bool' else f'{self.key}(x)'};"
        return f"fn key_of(x: {kind}) -> {self.key} {{\n{found}\n  return {turned};\n}}"

    def at(self, buffer, place: str) -> str:
        return self.from_memory(buffer, f"o{self.names[buffer][1:]} + {place}")

    # --- networks in workgroup memory --------------------------------------------------
    def network(self, stage: str, place: str):
        """All comparisons of a stage in workgroup memory; ``place``: of a pair within its row."""
        def compare():
            self.lines("let one = 2 * p - (p & (j - 1));", "let other = one + j;",
                       "let a = keys[one]; let i = found[one]; let b = keys[other]; let l = found[other];",
                       f"if (after(a, i, b, l) == (({place} & {stage}) == 0)) {{",
                       "  keys[one] = b; found[one] = l; keys[other] = a; found[other] = i;", "}")

        self.block(f"for (var p = i32(lid); p < {LOCAL // 2}; p += {THREADS})", compare)
        self.line("workgroupBarrier();")

    def each(self, body):
        """``body()`` for the pairs ``e`` in workgroup memory."""
        self.block(f"for (var e = i32(lid); e < {LOCAL}; e += {THREADS})", body)

    def taken(self, row: str, place: str):
        """Names an element of a row, and puts it into workgroup memory; there is more beyond the end of a row."""
        self.lines(f"let row = {row};", f"let place = {place};", f"var made = {self.most};")
        self.block("if (row < rows && place < size)", lambda: self.line(
            f"made = key_of({self.at(self.x, 'row * size + place')});"))
        self.lines("keys[e] = made;", "found[e] = place;")

    def put(self, row: str, to: str, place: str):
        """Stores a result: the element at a place, and the place."""
        self.store(Put(self.values), to, self.at(self.x, f"{row} * size + {place}"))
        self.store(Put(self.places), to, f"i64({place})")

    def role_rows(self):
        self.line(f"let per = {LOCAL} / wide;")
        self.each(lambda: self.taken("unit * per + e / wide", "e % wide"))
        self.line("workgroupBarrier();")
        self.block("for (var k = 2; k <= wide; k = k << 1u)", lambda: self.block(
            "for (var j = k >> 1u; j > 0; j = j >> 1u)", lambda: self.network("k", "(one & (wide - 1))")))

        def out():
            self.lines("let row = unit * per + e / wide;", "let to = e % wide;")
            self.block("if (row < rows && to < count)", lambda: self.put("row", "row * count + to", "found[e]"))

        self.each(out)

    # --- longer rows --------------------------------------------------
    def part(self):
        """Names the row of a part, and its first place."""
        self.lines(f"let parts = wide / {LOCAL};", "let whole_row = unit / parts;",
                   f"let first = unit % parts * {LOCAL};")

    def back(self):
        """Workgroup memory into temporaries."""
        self.each(lambda: (self.store(Put(self.keys), "whole_row * wide + first + e", "keys[e]"),
                           self.store(Put(self.found), "whole_row * wide + first + e", "found[e]")))

    def role_begin(self):
        self.part()
        self.each(lambda: self.taken("whole_row", "first + e"))
        self.line("workgroupBarrier();")
        self.block(f"for (var k = 2; k <= {LOCAL}; k = k << 1u)", lambda: self.block(
            "for (var j = k >> 1u; j > 0; j = j >> 1u)", lambda: self.network("k", "(first + one)")))
        self.back()

    def role_merge(self):
        self.part()
        self.each(lambda: self.lines(f"keys[e] = {self.at(self.keys, 'whole_row * wide + first + e')};",
                                     f"found[e] = {self.at(self.found, 'whole_row * wide + first + e')};"))
        self.line("workgroupBarrier();")
        self.block(f"for (var j = {LOCAL // 2}; j > 0; j = j >> 1u)", lambda: self.network("stage", "(first + one)"))
        self.back()

    def role_step(self):
        keys, found = self.keys, self.found
        self.lines("let half = wide / 2;", "let p = unit % half;", "let low = 2 * p - (p & (distance - 1));",
                   "let one = unit / half * wide + low;", "let other = one + distance;",
                   f"let a = {self.at(keys, 'one')}; let i = {self.at(found, 'one')};",
                   f"let b = {self.at(keys, 'other')}; let l = {self.at(found, 'other')};")

        def exchange():
            for buffer, place, value in ((keys, "one", "b"), (found, "one", "l"), (keys, "other", "a"),
                                         (found, "other", "i")):
                self.store(Put(buffer), place, value)

        self.block("if (after(a, i, b, l) == ((low & stage) == 0))", exchange)

    def role_end(self):
        self.lines("let row = unit / count;", "let to = unit % count;",
                   f"let place = {self.at(self.found, 'row * wide + to')};")
        self.put("row", "unit", "place")


class Sortings:
    """Plans for a device of these features."""

    def __init__(self, features: frozenset):
        self.features, self.numbers = features, {}

    def suits(self, node) -> bool:
        """Whether there are numbers for the places of what is sorted, and keys."""
        return "i64" in self.features and (node.args[0].dtype.name != "float64" or "f64" in self.features)

    def kernel(self, role: str, p, units: int, operands: tuple, wide: int, stage=0, distance=0) -> CompiledKernel:
        key = Role(role, p.dtype, p.descending)
        if key not in self.numbers:
            self.numbers[key] = modules.number(Sorting(key, self.features).module())
        return CompiledKernel(self.numbers[key], units, operands, (p.rows, p.size, p.count, wide, stage, distance))

    def plan(self, p) -> Contraction:
        """The launches for a Selection (``cpu/templates/select.py``): as many as it takes."""
        if not p.rows * p.count:
            return Contraction(())
        wide = max(2, 1 << (p.size - 1).bit_length())
        if wide <= LOCAL:
            units = -(-p.rows // (LOCAL // wide))
            return Contraction((self.kernel("rows", p, units, ("x", "values", "places"), wide),))
        parts, own = p.rows * wide // LOCAL, ("keys", "found")
        steps = [self.kernel("begin", p, parts, ("x", *own), wide)]
        stage = 2 * LOCAL
        while stage <= wide:
            distance = stage // 2
            while distance >= LOCAL:
                steps.append(self.kernel("step", p, p.rows * wide // 2, own, wide, stage, distance))
                distance //= 2
            steps.append(self.kernel("merge", p, parts, own, wide, stage))
            stage *= 2
        steps.append(self.kernel("end", p, p.rows * p.count, ("x", "found", "values", "places"), wide))
        key = 8 if p.dtype in WIDE else 4
        return Contraction(tuple(steps), {"keys": key * p.rows * wide, "found": 4 * p.rows * wide})
