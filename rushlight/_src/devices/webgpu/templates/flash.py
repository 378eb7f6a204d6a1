"""FlashAttention in WGSL: blocks of keys are streamed past a block of queries, without materialized scores; online
softmax corrects the accumulators (Dao et al., "FlashAttention", 2022; Milakov and Gimelshein, 2018).

A workgroup of ``side`` x ``side`` threads has a block of ``size`` x ``size`` scores, each thread every ``side``-th row
and column of it.  Resident and streamed operands are in workgroup memory.  Accumulators are float32.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from ....compiler.kernel import Buffer
from ....compiler.target import leaf
from ....core.dtypes import float32
from ....core.expr import apply
from ....ops.dropping import KEYS, QUERIES
from ...shared.attention import GRADIENT, SCORE, SPOT, Form
from ...shared.writer import Writer
from ..emit import Emitter
from ..scalars import convert
from ..step import Module
from .tiled import Put

STRIDED = "batch", "head", "row"
LEAST = "from_bits(4286578688u)"  # minus infinity
OPERAND = leaf("operand")
FUNCTIONS = {"exp_of": apply("exp", OPERAND), "log_of": apply("log", OPERAND)}


class Block(NamedTuple):
    """Threads along each side of a workgroup, and how many rows and columns of scores each thread has."""

    side: int
    each: int

    @property
    def size(self) -> int:
        return self.side * self.each


class Scores(Emitter):
    """The common part of the kernels: a workgroup's position, scores of a block, and their mask.

    ``own``: names of a kernel's operands in addition to the common ones; those in ``results`` are written.
    ``strided``: those with strides as arguments of a launch.  ``turned``: whether scores are transposed, with a row per
    key.  ``stays``: the sizes of the resident operands: "size" or "value_size".
    """

    turned = False
    own, results, strided, stays = (), (), (), ()

    def __init__(self, form: Form, block: Block, features):
        Writer.__init__(self)
        self.features, self.head, self.constants, self.meets = features, [], {}, False
        self.form, self.tile = form, block
        self.pitch = 1 + max(form.size, form.value_size)  # elements of a row of what passes by
        self.element = "f16" if self.is_half(form.dtype) else "f32"
        self.put = "f32_to_f16" if self.element == "f16" else ""
        dtypes, read = form.dtypes(), {b.name: b for b in (form.mods.buffers if form.mods else ())}
        made = {name: read.get(name) or Buffer(name, dtypes[name]) for name in (*form.names(), *self.own)}
        self.buffers, self.made = list(made.values()), made
        self.written = {made[name] for name in self.results}
        self.line("let none = words[0] >> 31u;")
        for k, buffer in enumerate(self.buffers):
            self.names[buffer] = f"b{k}"
            self.line(f"let o{k} = i32(words[{1 + k}]);")
            self.declare(k, buffer)
        at = 1 + len(self.buffers)
        for name in self.wholes():
            self.named(name, f"bitcast<i64>((u64(words[{at + 1}]) << 32u) | (u64(words[{at}]) & 0xfffffffflu))")
            at += 2
        for k, name in enumerate(self.sizes(), at):
            self.named(name, f"bitcast<{'f32' if name in ('scale', 'larger') else 'i32'}>(words[{k}])")

    def wholes(self) -> list:
        """Return the names of a launch's int64 arguments."""
        return ["seed", "place"] if self.form.drops else []

    def sizes(self) -> list:
        """Names of the other numbers."""
        found = ["heads", "sharing", "queries", "keys", "most_queries", "most_keys"]
        found += [f"{name}_{dim}" for name in ("q", "k", "v", *self.strided) for dim in STRIDED]
        found += [f"mask_{dim}" for dim in STRIDED] if self.form.mask else []
        found += [f"blocks_{dim}" for dim in STRIDED] if self.form.block else []
        return [*found, *(["row_tiles", "column_tiles", "threshold", "larger"] if self.form.drops else []), "scale"]

    def home(self, e, x):
        return self.scopes[-1]

    # --- the module --------------------------------------------------
    def module(self, key: str) -> Module:
        """The module, and what its launches bind."""
        size, form = self.tile.size, self.form
        kept = {f"t{k}": size * (1 + getattr(form, one))
                for k, one in enumerate(self.stays)} | {"tx": size * self.pitch}
        self.head += [f"var<workgroup> {name}: array<{self.element}, {count}>;" for name, count in kept.items()]
        self.head.append(f"var<workgroup> tp: array<f32, {size * (size + 1)}>;")
        self.line("let unit = i32(wid.x + wid.y * 65535u);")
        self.block("if (unit < i32(words[0]))", self.kernel_text)
        self.head += [self.function(name, e, OPERAND) for name, e in FUNCTIONS.items()]
        text = self.whole(self.tile.side**2, form.checks)
        name = "a" + hashlib.sha256(f"{type(self).__name__} {key}".encode()).hexdigest()[:12]
        return Module(name, text, tuple(b.dtype.itemsize for b in self.buffers), (False,) * len(self.wholes()),
                      form.checks, 1, False)

    def kernel_text(self):
        """Emit the body of the kernel."""
        raise NotImplementedError

    # --- where a workgroup is --------------------------------------------------
    def threads(self):
        side = self.tile.side
        self.lines(f"let x = i32(lid) % {side};", f"let y = i32(lid) / {side};")

    def sequence(self):
        """The lengths and first rows of a workgroup's sequence; ``batch`` is known."""
        for letter, whole in (("q", "queries"), ("k", "keys")):
            if self.form.ragged:
                starts = self.made[f"{letter}_starts"]
                first, end = (self.from_memory(starts, f"o{self.names[starts][1:]} + batch{more}")
                              for more in ("", " + 1"))
                self.lines(f"let {letter}_first = i32({first});", f"let {letter}_count = i32({end}) - {letter}_first;")
            else:
                self.lines(f"let {letter}_first = 0;", f"let {letter}_count = {whole};")

    def read(self, name: str, place: str) -> str:
        """An element of an operand, as float32."""
        return self.from_memory(self.made[name], f"o{self.names[self.made[name]][1:]} + {place}")

    def size_of(self, name: str) -> int:
        return self.form.value_size if name in ("v", "grad", "out", "grad_v") else self.form.size

    def bring(self, name: str, target: str, at: str, row: str, count: str):
        """A block of rows of an operand into workgroup memory; ``at``: the place of the first row of all."""
        size, pitch = self.size_of(name), self.pitch if target == "tx" else 1 + self.size_of(name)

        def one():
            self.lines(f"let r = e / {size};", f"let c = e % {size};", "var found = 0.0f;")
            self.block(f"if ({row} + r < {count})", lambda: self.line(
                f"found = {self.read(name, f'{at} + ({row} + r) * {name}_row + c')};"))
            self.line(f"{target}[r * {pitch} + c] = {self.put}(found);")

        self.block(f"for (var e = i32(lid); e < {self.tile.size * size}; e += {self.tile.side ** 2})", one)

    def meet(self):
        self.line("workgroupBarrier();")

    def variables(self, name: str, count: int, fill="0.0f"):
        """Declare an array of ``count`` float32 with the same value."""
        self.line(f"var {name} = array<f32, {count}>({', '.join(['0.0f'] * count)});")  # reset in each iteration
        if fill != "0.0f":
            self.line(f"for (var n = 0; n < {count}; n++) {{ {name}[n] = {fill}; }}")

    def columns_of(self, name: str) -> int:
        """How many columns of a result each thread has."""
        return -(-self.size_of(name) // self.tile.side)

    # --- matmuls --------------------------------------------------
    def dot(self, name: str, stays: str, size: int):
        """A matmul of the resident operand, a row for each own row, and the streamed one, a row for each column."""
        side, each = self.tile

        def along():
            read = "f32({})" if self.element == "f16" else "{}"
            for i in range(each):
                self.line(f"let l{i} = {read.format(f'{stays}[(y + {side * i}) * {size + 1} + d]')};")
                self.line(f"let r{i} = {read.format(f'tx[(x + {side * i}) * {self.pitch} + d]')};")
            for i in range(each):
                for j in range(each):
                    self.line(f"{name}[{i * each + j}] = {name}[{i * each + j}] + l{i} * r{j};")

        self.block(f"for (var d = 0; d < {size}; d++)", along)

    def add_up(self, sums: str, name: str):
        """Adds to sums of own rows what weights in ``tp`` make of the rows that pass by; ``name``: what they are
        like."""
        side, each = self.tile
        count = self.columns_of(name)
        read = f"tx[k * {self.pitch} + x + {side} * c]"
        read = f"f32({read})" if self.element == "f16" else read

        def along():
            for i in range(each):
                self.line(f"let w{i} = tp[(y + {side * i}) * {self.tile.size + 1} + k];")
            self.passed_by([f"w{i}" for i in range(each)])
            self.block(f"for (var c = 0; c < {count}; c++)", lambda: self.lines(
                f"let other = {read};",
                *(f"{sums}[{i * count} + c] = {sums}[{i * count} + c] + {self.weighed(f'w{i}')} * other;"
                  for i in range(each))))

        self.block(f"for (var k = 0; k < {self.tile.size}; k++)", along)

    def passed_by(self, weights: list):
        """Hook: process the weights of a streamed row further."""

    def weighed(self, weight: str) -> str:
        """Return the factor of a weight in the result."""
        return weight

    def write(self, name: str, sums: str, at: str, row: str, count: str, factor: str):
        """Store the accumulators of own rows."""
        side, each = self.tile
        columns = self.columns_of(name)

        def one():
            self.lines(f"let i = n / {columns};", f"let c = x + {side} * (n % {columns});",
                       f"let r = {row} + y + {side} * i;")
            self.block(f"if (r < {count} && c < {self.size_of(name)})", lambda: self.store(
                Put(self.made[name]), f"{at} + r * {name}_row + c", f"({sums}[n]{factor})"))

        self.block(f"for (var n = 0; n < {each * columns}; n++)", one)

    # --- scores --------------------------------------------------
    def elements(self, body):
        """``body()`` for each score of the thread: ``i``, ``j``, ``n`` its number; ``query`` and ``key`` are named, and
        whether they are ``there``."""
        side, each = self.tile

        def one():
            queries, keys = (("x", "j"), ("y", "i")) if self.turned else (("y", "i"), ("x", "j"))
            self.lines(f"let i = n / {each};", f"let j = n % {each};",
                       f"let query = row + {queries[0]} + {side} * {queries[1]};",
                       f"let key = column + {keys[0]} + {side} * {keys[1]};",
                       f"let there = query < q_count && key < k_count{' && key <= query' if self.form.causal else ''};")
            if self.form.mods is not None:
                self.scopes[-1].values.update(zip(self.form.mods.at, SPOT))
            body()

        self.block(f"for (var n = 0; n < {each * each}; n++)", one)

    @property
    def spot(self) -> str:
        """Where ``tp`` has a thread's score."""
        return f"tp[(y + {self.tile.side} * i) * {self.tile.size + 1} + x + {self.tile.side} * j]"

    def scored(self):
        """Names ``score`` of the product ``s[n]``; minus infinity where a query may not look."""
        self.lines(f"var score = {LEAST};", "let plain = s[n] * scale;")
        self.scopes[-1].values[SCORE] = "plain"
        self.block("if (there)", self.modified)

    def modified(self):
        form, mods = self.form, self.form.mods
        if mods is not None and mods.score is not None:
            self.line(f"score = {convert(self.value(mods.score), mods.score.dtype, float32)};")
        else:
            self.line("score = plain;")
        if mods is not None and mods.mask is not None:
            self.block("if (least < 2)", lambda: self.line(
                f"score = select({LEAST}, score, {self.value(mods.mask)});"))
        if form.mask:
            seen = self.read("mask", "batch * mask_batch + head * mask_head + query * mask_row + key")
            self.line(f"score = select({LEAST}, score, {seen});" if form.mask == "bool" else f"score = score + {seen};")

    def sloped(self):
        """``slope`` becomes the gradient of plain scores times the scale's inverse; it is that of modified ones."""
        mods = self.form.mods
        if mods is None or mods.score is None:
            return

        def modified():
            self.scopes[-1].values[GRADIENT] = self.let("slope")
            self.line(f"slope = {convert(self.value(mods.slope), mods.slope.dtype, float32)};")

        self.block("if (there)", modified)
        self.line("slope = select(0.0f, slope, there);")

    def survives(self) -> str:
        """Return whether dropout keeps a weight, by tiles of the RNG stream as on the CPU."""
        block = (f"i64((batch * heads + head) * row_tiles + query / {QUERIES}) * i64(column_tiles * {KEYS}) + i64(key)")
        word = self.let(f"philox(seed, place, ({block}) * 4li + i64((query % {QUERIES}) / 2))")
        return self.let(f"i32(({word} >> u32(16 * (query & 1))) & 65535li) >= threshold")

    def looked_at(self, body):
        """``body()`` at the block of scores at ``row`` and ``column``, unless the map of blocks leaves it out."""
        form, size = self.form, self.tile.size
        if not form.block:
            body()
            return
        rows, columns = form.block
        self.lines("var most = 0;", "var least = 2;",
                   f"let down = min((row + {size - 1}) / {rows}, (q_count - 1) / {rows});",
                   f"let along = min((column + {size - 1}) / {columns}, (k_count - 1) / {columns});")
        state = self.read("blocks", "batch * blocks_batch + head * blocks_head + r * blocks_row + c")
        self.block(f"for (var r = row / {rows}; r <= down; r++)", lambda: self.block(
            f"for (var c = column / {columns}; c <= along; c++)",
            lambda: self.lines(f"let state = i32({state});", "most = max(most, state);", "least = min(least, state);")))
        self.block("if (most > 0)", body)


class ByQueries(Scores):
    """A workgroup has a block of queries, and goes along the keys."""

    def here(self):
        """Names the workgroup's head and rows."""
        size = self.tile.size
        self.threads()
        self.lines(f"let tall = (most_queries + {size - 1}) / {size};",
                   # what goes along most keys comes first
                   f"let row = {'(tall - 1 - unit % tall)' if self.form.causal else '(unit % tall)'} * {size};",
                   "let head = unit / tall % heads;", "let batch = unit / tall / heads;",
                   "let sharer = head / sharing;")
        self.sequence()
        self.lines(f"let q_at = {self.form.first('q', 'head')};", f"let k_at = {self.form.first('k', 'sharer')};",
                   f"let v_at = {self.form.first('v', 'sharer')};", f"let number = {self.form.number('head')};")
        self.bring("q", "t0", "q_at", "row", "q_count")

    def along_keys(self, step):
        size = self.tile.size
        end = f"min(k_count, row + {size})" if self.form.causal else "k_count"
        self.line(f"let end = select(0, {end}, row < q_count);")
        self.block(f"for (var column = 0; column < end; column += {size})", lambda: self.looked_at(step))

    def score(self, body):
        """The scores of queries and the next keys, then ``body()`` for each."""
        self.bring("k", "tx", "k_at", "column", "k_count")
        self.meet()
        self.variables("s", self.tile.each**2)
        self.dot("s", "t0", self.form.size)
        self.elements(body)


class Forward(ByQueries):
    """The result, and the logarithm of each row's total."""

    own, results, strided, stays = ("out", "lse"), ("out", "lse"), ("out",), ("size",)

    def kernel_text(self):
        side, each = self.tile
        self.here()
        self.variables("top", each, LEAST)
        self.variables("total", each)
        self.variables("change", each)
        self.variables("base", each)
        self.variables("sums", each * self.columns_of("v"))
        self.along_keys(self.step)
        self.block(f"for (var i = 0; i < {each}; i++)", self.finish)
        self.line(f"let out_at = {self.form.first('out', 'head')};")
        self.write("out", "sums", "out_at", "row", "q_count", " * larger" if self.form.drops else "")

    def finish(self):
        """A row's sums over its total, whose logarithm is stored."""
        columns, lse = self.columns_of("v"), self.made["lse"]
        self.lines("let none_seen = total[i] == 0.0f;", "let over = select(total[i], 1.0f, none_seen);",
                   f"for (var c = 0; c < {columns}; c++) "
                   f"{{ sums[i * {columns} + c] = sums[i * {columns} + c] / over; }}",
                   f"let place_of = row + y + {self.tile.side} * i;")
        self.block("if (x == 0 && place_of < q_count)", lambda: self.store(
            Put(lse), "number + place_of", "select(top[i] + log_of(over), from_bits(2139095040u), none_seen)"))

    def step(self):
        side, each = self.tile
        size, columns = self.tile.size, self.columns_of("v")
        self.score(lambda: (self.scored(), self.line(f"{self.spot} = score;")))
        self.meet()
        self.bring("v", "tx", "v_at", "column", "k_count")
        self.block(f"for (var i = 0; i < {each}; i++)", lambda: self.lines(
            "var best = top[i];",
            f"for (var k = 0; k < {size}; k++) {{ let one = tp[(y + {side} * i) * {size + 1} + k]; "
            "best = select(best, one, one > best); }",
            f"base[i] = select(best, 0.0f, best == {LEAST});", "change[i] = exp_of(top[i] - base[i]);",
            "top[i] = best;",
            "total[i] = total[i] * change[i];",
            f"for (var c = {columns} * i; c < {columns} * i + {columns}; c++) {{ sums[c] = sums[c] * change[i]; }}"))
        self.meet()
        self.elements(self.weigh)
        self.meet()
        self.add_up("sums", "v")
        self.meet()

    def weigh(self):
        """A score becomes its weight; one that is dropped still counts in the total, and is kept below 0."""
        self.line(f"var weight = exp_of({self.spot} - base[i]);")
        if self.form.drops:
            self.line(f"weight = select(-weight, weight, {self.survives()});")
        self.line(f"{self.spot} = weight;")

    def passed_by(self, weights):
        for i, weight in enumerate(weights):
            self.line(f"total[{i}] = total[{i}] + {f'abs({weight})' if self.form.drops else weight};")

    def weighed(self, weight):
        return f"select({weight}, 0.0f, {weight} < 0.0f)" if self.form.drops else weight
