"""Attention forward: blocks of keys are packed once and pass by blocks of queries, whose sums are corrected as they go.

After Dao et al., "FlashAttention" (2022): scores never leave the L2 cache. A work unit is a chunk of the queries of one
head. Fully masked blocks are skipped.
"""

from dataclasses import dataclass

from ..llvm import jit
from ..llvm.builder import Module
from ..llvm.values import constant, zero
from ..llvm.tiles import configured
from ..llvm.types import f32, i32, i64, vector
from . import dropout, few, pack
from .blocked import KERNEL
from .elements import Strided
from .modify import block_states, choose, has_blocks, slots_of, uses, where_of
from .scores import ScoreBlock, write_scores, write_values
from .softmax import LN2, MINUS_INFINITY, any_allowed, logarithm, mask_of, write_row


def block_of(numbers):
    """The ScoreBlock of the forward pass."""
    return ScoreBlock(32, 352) if numbers.tiles else ScoreBlock(48, 192)


RAGGED = ("q_starts", "k_starts")  # offsets of packed sequences, and the end of the last one

# Strides are in bytes; "scale" is a float's bits, for scores in units of log 2.
SLOTS = ("q", "k", "v", "mask", "out", "lse", "scratch", "heads", "sharing", "queries", "keys", "size", "value_size",
         "chunks",
         "chunk_rows", "scale", "q_batch", "q_head", "q_row", "k_batch", "k_head", "k_row", "v_batch", "v_head",
         "v_row",
         "out_batch", "out_head", "out_row", "mask_batch", "mask_head", "mask_row", "scratch_bytes", "keys_at",
         "values_at",
         "scores_at", "sums_at", "state_at", "key_panel_bytes", "value_panel_bytes", "value_panels", *RAGGED,
         *dropout.SLOTS)
POINTERS = ("q", "k", "v", "mask", "out", "lse", "scratch", *RAGGED)


@dataclass(frozen=True)
class Variant:
    """The properties that a kernel's code depends on, in addition to its tiles.

    `mask`: "" (none), "bool" or the float dtype of what is added. `ragged`: sequences are packed (varlen). `drops`:
      probabilities are dropped at random.
    `few`: so few queries that nothing is packed. `modification`: a user's function of scores, whose slots follow the
      others.
    """

    dtype: str
    mask: str = ""
    causal: bool = False
    ragged: bool = False
    drops: bool = False
    few: bool = False
    modification: object = None

    @property
    def key(self):
        """Key that identifies the code completely."""
        return (f"{self.dtype} {self.mask} {self.causal} {self.ragged} {self.drops} {self.few} "
                f"{self.modification and self.modification.key}")


def flash_kernel(numbers, variant, score_tile, value_tile):
    """Return the address of the attention kernel for chunks of queries. The tiles are (rows, vectors)."""
    key = f"flash {numbers} {variant.key} {score_tile} {value_tile} {block_of(numbers)}"
    return jit.build(key, lambda: _text(numbers, variant, score_tile, value_tile), ["flash"])["flash"]


def _text(numbers, variant, score_tile, value_tile):
    module = Module()
    modification = variant.modification
    rows = [write_row(module, numbers, variant, use, f"row{k}") for k, use in enumerate(uses(modification))]
    keys = block_of(numbers).keys
    keep = dropout.write_keep(module, keys) if variant.drops else None
    if variant.few:
        functions = few.write_scores(module, numbers), rows, few.write_values(module, numbers), keep
    else:
        functions = write_scores(module, numbers, score_tile, keys), rows, write_values(module, numbers, value_tile,
                                                                                        keys * 4), keep
    f = module.function("flash", KERNEL)
    args, begin, end, worker = f.parameters
    s = slots_of(f, args, SLOTS, POINTERS, modification)
    writer = _Flash(f, s, numbers, variant, score_tile, value_tile, functions)
    scratch = f.offset(s.scratch, f.mul(worker, s.scratch_bytes))
    units = lambda: f.loop(begin, end, 1, [], lambda unit, _: writer.unit(unit, scratch))
    configured(f, units) if numbers.tiles else units()
    f.ret()
    return module.text()


def sequence(b, s, variant, name, batch, size):
    """Return (offset of the rows of a sequence, their number, their offset among those of a head) of operand `name`,
    "q" or "k"."""
    if not variant.ragged:
        return constant(i64, 0), size, constant(i64, 0)
    starts = b.offset(getattr(s, f"{name}_starts"), batch, i64)
    first = b.load(i64, starts)
    return first, b.sub(b.load(i64, b.offset(starts, 8)), first), first


class _Flash:
    """Emits the loops of the kernel, from the outside in."""

    def __init__(self, b, s, numbers, variant, score_tile, value_tile, functions):
        self.b, self.s, self.numbers, self.variant, self.modification = b, s, numbers, variant, variant.modification
        self.mask, self.causal = mask_of(variant.mask), variant.causal
        self.score_tile, self.value_tile = score_tile, value_tile
        self.scores_of, self.rows_of, self.values_of, self.keep_of = functions
        self.key_width, self.value_width = score_tile[1] * numbers.lanes, value_tile[1] * numbers.lanes
        self.block_queries, self.block_keys = block_of(numbers).queries, block_of(numbers).keys
        self.per_chunk = numbers.chunk * numbers.per_word  # elements along k

    def unit(self, unit, scratch):
        """Emit a chunk of the queries of one head, if its sequence is that long."""
        b, s = self.b, self.s
        self.head_number = b.div(unit, s.chunks)
        self.batch = b.div(self.head_number, s.heads)
        self.head = b.sub(self.head_number, b.mul(self.batch, s.heads))
        self.q_first, self.queries, self.row_number = sequence(b, s, self.variant, "q", self.batch, s.queries)
        self.k_first, self.keys, _ = sequence(b, s, self.variant, "k", self.batch, s.keys)
        self.row_number = b.add(b.mul(self.head if self.variant.ragged else self.head_number, s.queries),
                                self.row_number)
        first = b.mul(b.sub(unit, b.mul(self.head_number, s.chunks)), s.chunk_rows)
        b.when(b.compare("<", first, self.queries), lambda: self.chunk(first, scratch))

    def chunk(self, first, scratch):
        """Emit the loop of all blocks of keys over the chunk of queries that begins at `first`."""
        b, s = self.b, self.s
        self.first, self.rows = first, b.minimum(b.sub(self.queries, first), s.chunk_rows)
        shared = b.div(self.head, s.sharing)
        row = b.add(self.q_first, first)

        def place(name, of_head, row):
            at = b.add(b.mul(self.batch, getattr(s, f"{name}_batch")), b.mul(of_head, getattr(s, f"{name}_head")))
            return b.offset(getattr(s, name), b.add(at, b.mul(row, getattr(s, f"{name}_row"))))

        self.q, self.out = place("q", self.head, row), place("out", self.head, row)
        self.k, self.v = place("k", shared, self.k_first), place("v", shared, self.k_first)
        self.mask_at = place("mask", self.head, row) if self.mask.name else s.mask
        self.lse = b.offset(s.lse, b.add(self.row_number, first), f32)
        self.queries_at = scratch
        self.keys_at, self.values_at, self.scores_at, self.sums_at, self.state_at, self.kept_at = (
            b.offset(scratch, getattr(s, name)) for name in ("keys_at", "values_at", "scores_at", "sums_at", "state_at",
                                                             "kept_at"))
        self.chunks = b.div(b.add(s.size, self.per_chunk - 1), self.per_chunk)
        self.start()
        stop = b.minimum(self.keys, b.add(self.first, self.rows)) if self.causal else self.keys
        b.loop(0, stop, self.block_keys, [], lambda key, _: self.key_block(key))
        self.finish()

    def start(self):
        """Pack the queries and clear the sums and the rows' state."""
        b, s = self.b, self.s
        if not self.variant.few:
            pack.write_quads(b, self.score_tile[0], Strided(b, self.numbers, self.q, lane=s.q_row), self.queries_at,
                             self.rows, s.size)
        b.fill_bytes(self.sums_at, 0, b.sub(s.state_at, s.sums_at))
        lanes = self.numbers.lanes
        self.highest, self.totals = self.state_at, b.offset(self.state_at, s.chunk_rows, f32)
        self.corrections = b.offset(self.totals, s.chunk_rows, f32)

        def clear(k, _):
            b.store(constant(vector(f32, lanes), MINUS_INFINITY), b.offset(self.highest, k, f32), align=4)
            b.store(zero(vector(f32, lanes)), b.offset(self.totals, k, f32), align=4)

        b.loop(0, s.chunk_rows, lanes, [], clear)

    def key_block(self, key):
        """Emit a block of keys, unless it is fully masked."""
        b, s = self.b, self.s
        count = b.minimum(b.sub(self.keys, key), self.block_keys)
        if has_blocks(self.modification):
            some, _ = block_states(b, s, self.batch, self.head, self.first, self.rows, key, count)
            b.when(some, lambda: self.visit(key, count))
        else:
            self.visit(key, count)

    def visit(self, key, count):
        """Loop over every block of queries for a block of keys."""
        if not self.variant.few:
            self.pack(key, count)
        b = self.b
        begin = constant(i64, 0)
        if self.causal:
            begin = b.mul(b.div(b.maximum(b.sub(key, self.first), 0), self.block_queries), self.block_queries)
        b.loop(begin, self.rows, self.block_queries, [], lambda row, _: self.block(row, key, count))

    def pack(self, key, count):
        """Pack a block of keys and values."""
        b, s, numbers = self.b, self.s, self.numbers
        k_row = s.k_row
        source = b.offset(self.k, b.mul(key, k_row))

        def key_panel(at, _):
            target = b.offset(self.keys_at, b.mul(b.div(at, self.key_width), s.key_panel_bytes))
            keys = Strided(b, numbers, b.offset(source, b.mul(at, k_row)), lane=k_row)
            pack.write_transposed_panel(b, self.key_width, keys, target, b.sub(count, at), s.size)

        b.loop(0, count, self.key_width, [], key_panel)
        values = b.offset(self.v, b.mul(key, s.v_row))

        def value_panel(at, _):
            target = b.offset(self.values_at, b.mul(b.div(at, self.value_width), s.value_panel_bytes))
            columns = Strided(b, numbers, b.offset(values, at, numbers.element), k=s.v_row)
            pack.write_panel(b, self.value_width, columns, target, b.sub(s.value_size, at), count)

        b.loop(0, s.value_size, self.value_width, [], value_panel)

    def block(self, row, key, count):
        """Emit one block of queries against one block of keys, unless it is fully masked."""
        b, s = self.b, self.s
        rows = b.minimum(b.sub(self.rows, row), self.block_queries)
        if self.causal:
            count = b.minimum(count, b.sub(b.add(b.add(self.first, row), rows), key))
        if has_blocks(self.modification):
            some, all_of_it = block_states(b, s, self.batch, self.head, b.add(self.first, row), rows, key, count)
            b.when(some, lambda: self.look(row, rows, key, count, all_of_it))
            return
        if not self.mask.name:
            self.look(row, rows, key, count)
            return
        step = s.mask_row
        at = b.offset(b.offset(self.mask_at, b.mul(row, step)), key, self.mask.element)
        b.when(any_allowed(b, self.mask, at, step, rows, count, self.numbers.lanes),
               lambda: self.look(row, rows, key, count))

    def look(self, row, rows, key, count, everybody=None):
        """Compute scores and probabilities, and multiply by the values; `everybody`: no score is masked."""
        if self.variant.few:
            self.multiply_few(row, rows, key, count)
            self.weigh(row, rows, key, count, everybody)
            self.add_few(row, rows, key, count)
        else:
            self.multiply(row, rows, count)
            self.weigh(row, rows, key, count, everybody)
            self.add(row, rows, count)

    def multiply_few(self, row, rows, key, count):
        """Scores of each query, directly from the keys."""
        b, s = self.b, self.s
        keys, step = b.offset(self.k, b.mul(key, s.k_row)), s.k_row
        b.loop(0, rows, 1, [], lambda r, _: b.call(self.scores_of, [
            b.offset(self.q, b.mul(b.add(row, r), s.q_row)), keys, step, count, s.size, self.scores_row(r)]))

    def add_few(self, row, rows, key, count):
        """Multiply each query's probabilities directly by the values."""
        b, s = self.b, self.s
        values, step = b.offset(self.v, b.mul(key, s.v_row)), s.v_row

        def columns(number, _):
            at = b.mul(number, self.value_width)
            sums = self.sums_of(row, number)
            b.loop(0, rows, 1, [], lambda r, _: b.call(self.values_of, [
                self.scores_row(r), b.offset(values, at, self.numbers.element), step, count, b.sub(s.value_size, at),
                b.offset(sums, b.mul(r, self.value_width), f32), b.offset(self.corrections, r, f32)]))

        b.loop(0, s.value_panels, 1, [], columns)

    def scores_row(self, r):
        """Address of a row of the block's scores."""
        return self.b.offset(self.scores_at, self.b.mul(r, self.block_keys), f32)

    def multiply(self, row, rows, count):
        """Compute the scores of a block, tile by tile."""
        b, s, numbers = self.b, self.s, self.numbers
        tile_rows = self.score_tile[0]
        tile_bytes = b.mul(self.chunks, tile_rows * numbers.chunk * numbers.word.bytes)
        quads = b.offset(self.queries_at, b.mul(b.div(row, tile_rows), tile_bytes))

        def score_panel(at, _):
            panel = b.offset(self.keys_at, b.mul(b.div(at, self.key_width), s.key_panel_bytes))

            def tile(r, _):
                a = b.offset(quads, b.mul(b.div(r, tile_rows), tile_bytes))
                target = b.offset(self.scores_row(r), at, f32)
                b.call(self.scores_of, [a, panel, self.chunks, target])

            b.loop(0, rows, tile_rows, [], tile)

        b.loop(0, count, self.key_width, [], score_panel)

    def weigh(self, row, rows, key, count, everybody):
        """Turn scores into probabilities, and update the rows' states."""
        b, s = self.b, self.s
        run = max(self.per_chunk, self.numbers.lanes)
        padded = b.mul(b.div(b.add(count, run - 1), run), run)
        scale = b.bitcast(b.cast("trunc", s.scale, i32), f32)
        if self.variant.drops:
            dropout.decide(b, s, self.keep_of, self.kept_at, self.head_number, b.add(self.first, row), rows, key, count)

        def one_row(r, function):
            at = b.add(row, r)
            limit = count
            if self.causal:
                limit = b.maximum(b.minimum(count, b.sub(b.add(b.add(self.first, at), 1), key)), 0)
            mask = self.mask_at
            if self.mask.name:
                mask = b.offset(b.offset(mask, b.mul(at, s.mask_row)), key, self.mask.element)
            where = where_of(s, self.modification, self.batch, self.head, b.add(self.first, at), key)
            if self.variant.drops:
                where = [b.offset(self.kept_at, b.mul(r, dropout.row_bytes(self.block_keys))), *where]
            b.call(function, [self.scores_row(r), limit, padded, scale, mask, b.offset(self.highest, at, f32),
                              b.offset(self.totals, at, f32), b.offset(self.corrections, r, f32), *where])

        def all_rows(function):
            b.loop(0, rows, 1, [], lambda r, _: one_row(r, function))

        choose(b, everybody, self.rows_of, all_rows)

    def add(self, row, rows, count):
        """Multiply probabilities by values, tile by tile."""
        b, s = self.b, self.s
        chunks = b.div(b.add(count, self.per_chunk - 1), self.per_chunk)
        value_rows = self.value_tile[0]

        def value_panel(number, _):
            panel = b.offset(self.values_at, b.mul(number, s.value_panel_bytes))
            target = self.sums_of(row, number)

            def tile(r, _):
                b.call(self.values_of, [self.scores_row(r), panel, chunks,
                                        b.offset(target, b.mul(r, self.value_width), f32),
                                        b.offset(self.corrections, r, f32)])

            b.loop(0, rows, value_rows, [], tile)

        b.loop(0, s.value_panels, 1, [], value_panel)

    def sums_of(self, row, panel):
        """Address of the accumulators of a block of queries, for one panel of values."""
        b, s = self.b, self.s
        number = b.add(b.mul(b.div(row, self.block_queries), s.value_panels), panel)
        return b.offset(self.sums_at, b.mul(number, self.block_queries * self.value_width * 4))

    def finish(self):
        """Divide by the totals and store; also store logsumexp, or infinity for fully masked rows."""
        b, s, lanes = self.b, self.s, self.numbers.lanes
        kind = vector(f32, lanes)
        whole = b.splat(dropout.scale(b, s), lanes) if self.variant.drops else constant(kind, 1.0)

        def row(r, _):
            total = b.splat(b.load(f32, b.offset(self.totals, r, f32)), lanes)
            inverse = b.select(b.compare("==", total, 0.0), zero(kind), b.div(whole, total))
            out = b.offset(self.out, b.mul(r, s.out_row))
            within = b.mul(b.rem(r, self.block_queries), self.value_width)

            def columns(at, _):
                number = b.div(at, self.value_width)
                source = b.offset(self.sums_of(r, number), b.add(within, b.sub(at, b.mul(number, self.value_width))),
                                  f32)
                value = b.convert(b.mul(b.load(kind, source), inverse), self.numbers.element)
                b.store(value, b.offset(out, at, self.numbers.element),
                        mask=b.lane_mask(b.sub(s.value_size, at), lanes))

            b.loop(0, s.value_size, lanes, [], columns)

        b.loop(0, self.rows, 1, [], row)

        def logarithms(r, _):
            total = b.load(kind, b.offset(self.totals, r, f32), align=4)
            value = b.mul(b.add(logarithm(b, total), b.load(kind, b.offset(self.highest, r, f32), align=4)), LN2)
            value = b.select(b.compare("==", total, 0.0), constant(kind, -MINUS_INFINITY), value)
            b.store(value, b.offset(self.lse, r, f32), mask=b.lane_mask(b.sub(self.rows, r), lanes))

        b.loop(0, self.rows, lanes, [], logarithms)
