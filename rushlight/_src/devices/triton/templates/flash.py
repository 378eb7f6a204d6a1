"""FlashAttention in Triton: blocks of keys are streamed past a block of queries, without materialized scores; online
softmax corrects the accumulators (Dao et al., "FlashAttention", 2022; Milakov and Gimelshein, 2018).

Scores are in units of log 2.  Holes: a mask, what a user's functions do to a score, and dropout.
"""

from __future__ import annotations

from typing import NamedTuple

from ....compiler.kernel import Buffer
from ....core.dtypes import float32
from ....ops.dropping import KEYS, QUERIES
from ...shared.attention import GRADIENT, LOG2E, SCORE, SPOT, Form
from ..scalars import MEMORY
from .template import Template

LN2 = 1 / LOG2E
STRIDED = "batch", "head", "row"


class Blocks(NamedTuple):
    """Queries and keys that a program works on at a time, its warps, and how many loads are under way."""

    queries: int
    keys: int
    warps: int = 4
    stages: int = 2


def power_of_two(size: int) -> int:
    """Return the block size for a head of ``size`` elements, at least what tensor cores take."""
    return max(16, 1 << (size - 1).bit_length())


class Scores(Template):
    """The common part of the kernels: a program's position, scores of a block, and their mask.

    ``own``: names of a kernel's operands in addition to the common ones; those in ``results`` are written.  ``turned``:
    whether scores are transposed, with a row per key.
    """

    constants = ("BM", "BN", "D", "DV")
    turned = False
    own, results, strided = (), (), ()

    def __init__(self, form: Form, blocks: Blocks):
        self.form, self.blocks, dtypes = form, blocks, form.dtypes()
        read = {b.name: b for b in (form.mods.buffers if form.mods else ())}
        made = {name: read.get(name) or Buffer(name, dtypes[name]) for name in (*form.names(), *self.own)}
        sizes = ["heads", "sharing", "queries", "keys", "most_queries", "most_keys"]
        sizes += [f"{name}_{dim}" for name in ("q", "k", "v", *self.strided) for dim in STRIDED]
        sizes += [f"mask_{dim}" for dim in STRIDED] if form.mask else []
        sizes += [f"blocks_{dim}" for dim in STRIDED] if form.block else []
        sizes += ["row_tiles", "column_tiles", "threshold"] if form.drops else []
        wholes = [*(["seed", "place", "larger_bits"] if form.drops else []), "scale_bits"]
        super().__init__(made.values(), [made[name] for name in self.results], wholes, sizes, form.checks)
        self.at = {name: self.names[buffer] for name, buffer in made.items()}
        self.kind, self.shape = MEMORY[form.dtype], "[BN, BM]" if self.turned else "[BM, BN]"
        self.wide |= {"query", "key", "score", "slope", "there", "nowhere"}

    # --- where a program is --------------------------------------------------
    def sequence(self):
        """The lengths and first rows of a program's sequence; ``batch`` is known."""
        self.named("scale", "scale_bits.to(tl.int32).to(tl.float32, bitcast=True)")
        if self.form.drops:
            self.named("larger", "larger_bits.to(tl.int32).to(tl.float32, bitcast=True)")
        for letter, whole in (("q", "queries"), ("k", "keys")):
            if self.form.ragged:
                starts = self.at[f"{letter}_starts"]
                self.named(f"{letter}_first", f"tl.load({starts} + batch).to(units.dtype)")
                self.named(f"{letter}_count", f"tl.load({starts} + batch + 1).to(units.dtype) - {letter}_first")
            else:
                self.lines(f"{letter}_first = zero", f"{letter}_count = {whole}")

    def rows_of(self, name: str, at: str, rows: str, count: str) -> str:
        """A block of rows of an operand; ``at``: the place of its first row."""
        value = name in ("v", "grad", "out", "grad_v")
        size, block = (self.form.value_size, "DV") if value else (self.form.size, "D")
        along = f"tl.arange(0, {block})[None, :]"
        mask = f"({rows}[:, None] < {count})" + ("" if power_of_two(size) == size else f" & ({along} < {size})")
        return f"{self.at[name]} + {at} + {rows}[:, None] * {name}_row + {along}", mask

    def read(self, name: str, target: str, at: str, rows: str, count: str):
        place, mask = self.rows_of(name, at, rows, count)
        self.line(f"{target} = tl.load({place}, mask={mask}, other=0)")

    def write(self, name: str, value: str, at: str, rows: str, count: str):
        place, mask = self.rows_of(name, at, rows, count)
        self.line(f"tl.store({place}, ({value}).to({self.kind}), mask={mask})")

    def dot(self, left: str, right: str, sums="") -> str:
        """A matmul of blocks that accumulates in float32."""
        exact = f', input_precision="{self.form.precision}"' if self.form.dtype == "float32" else ""
        return f"tl.dot({left}, {right}{', ' + sums if sums else ''}{exact})"

    # --- scores --------------------------------------------------
    def placed(self, rows: str, columns: str):
        """Name the ``query`` and ``key`` of each score of a block."""
        across = ("[None, :]", "[:, None]") if self.turned else ("[:, None]", "[None, :]")
        self.lines(f"zeros = tl.zeros({self.shape}, tl.int32)",
                   f"query = {rows}{across[0]} + zeros",
                   f"key = {columns}{across[1]} + zeros",
                   "there = (query < q_count) & (key < k_count)")
        self.scopes[-1].mask = "there"
        if self.form.mods is not None:
            for e, name in zip(self.form.mods.at, SPOT):
                self.scopes[-1].values[e] = name

    def scored(self, product: str, bounded: bool):
        """Name ``score``, a q k^T product in units of log 2; minus infinity where masked.  ``bounded``: whether the
        block extends beyond the visible keys."""
        form, mods = self.form, self.form.mods
        if mods is not None and mods.score is not None:
            self.lines(f"plain = {product} * scale")
            self.wide.add("plain")
            self.scopes[-1].values[SCORE] = "plain"
            found = self.widened(self.tensor(self.value(mods.score), "tl.float32"), "tl.float32")
            self.line(f"score = {self.converted(found, mods.score.dtype, float32)} * {LOG2E}")
        else:
            self.line(f"score = {product} * (scale * {LOG2E})")
        if mods is not None and mods.mask is not None:
            self.block("if least < 2", self.modified)
        if form.mask:
            at = "batch * mask_batch + head * mask_head + query * mask_row + key"
            seen = f"tl.load({self.at['mask']} + {at}, mask=there, other=0)"
            self.line(f"score = tl.where({seen} != 0, score, -float('inf'))" if form.mask == "bool"
                      else f"score = score + {seen}.to(tl.float32) * {LOG2E}")
        if bounded:
            self.line(f"score = tl.where({'there & (key <= query)' if form.causal else 'there'}, score, "
                      "-float('inf'))")

    def modified(self):
        """A user's mask, where the map of blocks does not say that all may look."""
        seen = self.widened(self.tensor(self.value(self.form.mods.mask), "tl.int1"), "tl.int1")
        self.line(f"score = tl.where({seen}, score, -float('inf'))")

    def sloped(self):
        """Names ``slope``, the gradient of plain scores times the scale's inverse, of that of modified ones."""
        mods = self.form.mods
        if mods is None or mods.score is None:
            return
        self.scopes[-1].values[GRADIENT] = "slope"
        found = self.widened(self.tensor(self.value(mods.slope), "tl.float32"), "tl.float32")
        found = self.converted(found, mods.slope.dtype, float32)
        self.line(f"slope = tl.where(there, {found}, 0.0)")

    def kept(self, target: str, row: str, columns: str):
        """Name the mask of a block's weights that dropout keeps, by tiles of the RNG stream as on the CPU."""
        tiles = f"({row} // {QUERIES} + tl.arange(0, BM // {QUERIES}))[:, None]"
        block = (f"(((batch * heads + head) * row_tiles + {tiles}) * (column_tiles * {KEYS}) + {columns}[None, :])"
                 ".to(tl.int64) + place")
        self.line(f"{target} = {'turned_bits' if self.turned else 'kept_bits'}(seed, {block}, threshold, BM, BN)")

    def looked_at(self, row: str, column: str, body):
        """A block of scores, but for those that the map of blocks leaves out."""
        form = self.form
        if not form.block:
            body()
            return
        (rows, columns), place = form.block, f"{self.at['blocks']} + blocks_at"
        if rows % self.blocks.queries == 0 and columns % self.blocks.keys == 0:
            self.line(f"most = tl.load({place} + {row} // {rows} * blocks_row + {column} // {columns}).to(tl.int32)")
            self.line("least = most")
        else:
            for name, size, at, block, count in (("down", rows, row, self.blocks.queries, "q_count"),
                                                 ("along", columns, column, self.blocks.keys, "k_count")):
                few = 1 << ((block - 2) // size + 1).bit_length()
                self.line(f"{name} = {at} // {size} + tl.arange(0, {few})")
                self.line(f"{name}_last = (tl.minimum({at} + {block}, {count}) - 1) // {size}")
            self.lines("inside = (down <= down_last)[:, None] & (along <= along_last)[None, :]",
                       f"states = tl.load({place} + down[:, None] * blocks_row + along[None, :], mask=inside, other=0)"
                       ".to(tl.int32)",
                       "most = tl.max(tl.max(states, 1), 0)",
                       "least = tl.min(tl.min(tl.where(inside, states, 2), 1), 0)")
        self.block("if most > 0", body)

    @property
    def may_look_nowhere(self) -> bool:
        """Whether there may be queries without a key."""
        return bool(self.form.mask or self.form.mods is not None or self.form.ragged)


class ByQueries(Scores):
    """A program has a block of queries, and goes along the keys."""

    def here(self):
        """Names the program's head and rows."""
        self.called()
        self.lines("program = tl.program_id(0).to(units.dtype)",
                   "zero = units * 0",
                   "tall = (most_queries + BM - 1) // BM",
                   # what goes along most keys comes first
                   f"row = {'(tall - 1 - program % tall)' if self.form.causal else '(program % tall)'} * BM",
                   "head = program // tall % heads",
                   "batch = program // tall // heads",
                   "shared = head // sharing")
        self.sequence()
        self.lines("rows = row + tl.arange(0, BM)",
                   f"q_at = {self.form.first('q', 'head')}",
                   f"k_at = {self.form.first('k', 'shared')}",
                   f"v_at = {self.form.first('v', 'shared')}",
                   f"number = {self.form.number('head')}")
        if self.form.block:
            self.line("blocks_at = batch * blocks_batch + head * blocks_head")
        self.read("q", "q", "q_at", "rows", "q_count")

    def along_keys(self, step):
        """``step(bounded)`` for all blocks of keys: those that count as a whole, then the others."""
        end = "tl.minimum(k_count, row + BM)" if self.form.causal else "k_count"
        whole = "tl.minimum(row + 1, k_count)" if self.form.causal else "k_count"
        self.lines(f"whole = {whole} // BN * BN", f"end = tl.where(row < q_count, {end}, 0)",
                   "whole = tl.minimum(whole, end)")
        for head, bounded in (("for column in range(0, whole, BN)", False),
                              ("for column in range(whole, end, BN)", True)):
            def body(bounded=bounded):
                self.looked_at("row", "column", lambda: step(bounded))

            self.block(head, body)

    def score(self, bounded: bool):
        """Names the scores of a block of keys, ``k`` and ``columns``."""
        self.line("columns = column + tl.arange(0, BN)")
        self.read("k", "k", "k_at", "columns", "k_count")
        self.placed("rows", "columns")
        self.scored(self.dot("q", "tl.trans(k)"), bounded)


class Forward(ByQueries):
    """The result, and the logarithm of each row's total."""

    own, results, strided = ("out", "lse"), ("out", "lse"), ("out",)

    def text_of_kernel(self):
        self.here()
        self.lines("top = tl.full([BM], -float('inf'), tl.float32)",
                   "total = tl.zeros([BM], tl.float32)",
                   "sums = tl.zeros([BM, DV], tl.float32)")
        self.along_keys(self.step)
        if self.form.drops:
            self.line("sums = sums * larger")
        self.lines("sums = sums / tl.where(total == 0, 1.0, total)[:, None]",
                   f"lse = tl.where(total == 0, float('inf'), (top + tl.log2(total)) * {LN2})",
                   f"tl.store({self.at['lse']} + number + rows, lse, mask=rows < q_count)",
                   f"out_at = {self.form.first('out', 'head')}")
        self.write("out", "sums", "out_at", "rows", "q_count")

    def step(self, bounded: bool):
        self.score(bounded)
        self.lines("best = tl.maximum(top, tl.max(score, 1))",
                   "base = tl.where(best == -float('inf'), 0.0, best)" if self.may_look_nowhere else "base = best",
                   "weight = tl.exp2(score - base[:, None])",
                   "change = tl.exp2(top - base)",
                   "total = total * change + tl.sum(weight, 1)",
                   "top = best",
                   "sums = sums * change[:, None]")
        if self.form.drops:
            self.kept("kept", "row", "columns")
            self.line("weight = tl.where(kept, weight, 0.0)")
        self.read("v", "v", "v_at", "columns", "k_count")
        self.line(f"sums = {self.dot(f'weight.to({self.kind})', 'v', 'sums')}")
