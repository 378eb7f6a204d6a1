"""Gradients of attention: probabilities are recomputed from the forward's logsumexp, block by block.

After Dao et al., "FlashAttention" (2022). A work unit is a head of keys with all heads of queries that share it: blocks
of keys in the outer loop, blocks of queries in the inner one. Gradients of keys and values are accumulated for one
block of keys, those of queries for all.
"""

from ..llvm import jit
from ..llvm.builder import Module
from ..llvm.values import constant, zero
from ..llvm.halves import rounded_operand
from ..llvm.tiles import ROW_BYTES, configured
from ..llvm.types import f32, i16, i32, i64, ptr, vector
from . import dropout, pack
from .blocked import KERNEL
from .dropout import kept_lanes
from .elements import Strided
from .flash import RAGGED, sequence
from .modify import block_states, choose, has_blocks, slots_of, uses, where_of
from .scores import ScoreBlock, write_products, write_scores, write_turned_products
from .softmax import LOG2E, any_allowed, mask_of, power_of_two

# Strides are in bytes; "scale" and "log_scale" are floats' bits: the scale of scores, plain and in units of log 2.
SLOTS = ("q", "k", "v", "mask", "out", "lse", "grad", "grad_q", "grad_k", "grad_v", "scratch",
         "heads", "sharing", "queries", "keys", "size", "value_size", "scale", "log_scale",
         "q_batch", "q_head", "q_row", "k_batch", "k_head", "k_row", "v_batch", "v_head", "v_row",
         "out_batch", "out_head", "out_row", "grad_batch", "grad_head", "grad_row",
         "grad_q_batch", "grad_q_head", "grad_q_row", "grad_k_batch", "grad_k_head", "grad_k_row",
         "grad_v_batch", "grad_v_head", "grad_v_row", "mask_batch", "mask_head", "mask_row",
         "scratch_bytes", "q_quads_at", "grad_quads_at", "q_panels_at", "grad_panels_at", "q_sums_at", "rows_at",
         "k_across_at", "v_across_at", "k_panels_at", "scores_at", "products_at", "pairs_at", "k_sums_at", "v_sums_at",
         "q_quads_bytes", "grad_quads_bytes", "q_panel_bytes", "grad_panel_bytes", "q_sums_bytes", "padded_queries",
         "k_across_bytes", "v_across_bytes", "k_panel_bytes", "size_panels", "value_panels", *RAGGED, *dropout.SLOTS)
POINTERS = ("q", "k", "v", "mask", "out", "lse", "grad", "grad_q", "grad_k", "grad_v", "scratch", *RAGGED)


def block_of(numbers):
    """The ScoreBlock of the gradients."""
    return ScoreBlock(64, 192) if numbers.tiles else ScoreBlock(48, 192)


def flash_backward_kernel(numbers, variant, score_tile, size_tile, value_tile):
    """Return the address of the kernel of attention's gradients, one head of keys per work unit. Arguments are as in
    `flash_kernel`."""
    key = f"flash backward {numbers} {variant.key} {score_tile} {size_tile} {value_tile} {block_of(numbers)}"
    return jit.build(key, lambda: _text(numbers, variant, score_tile, size_tile, value_tile),
                     ["flash_backward"])["flash_backward"]


def _text(numbers, variant, score_tile, size_tile, value_tile):
    module = Module()
    word, step, keys = numbers.word.bytes, numbers.chunk * numbers.word.bytes, block_of(numbers).keys
    row = keys * 4
    functions = {
        "scores": write_scores(module, numbers, score_tile, keys),
        "rows": [write_rows(module, numbers, variant, use, f"rows{k}")
                 for k, use in enumerate(uses(variant.modification))],
        "keep": dropout.write_keep(module, keys) if variant.drops else None,
        "queries": write_products(module, numbers, size_tile, row, step, "queries")}
    for name, tile in (("keys", size_tile), ("values", value_tile)):
        # a row of the block is one step along k
        functions[name] = (write_turned_products(module, numbers, tile, row, name) if numbers.tiles
                           else write_products(module, numbers, tile, word, numbers.chunk * row, name))
    f = module.function("flash_backward", KERNEL)
    args, begin, end, worker = f.parameters
    s = slots_of(f, args, SLOTS, POINTERS, variant.modification)
    writer = (_TiledBackward if numbers.tiles else _Backward)(f, s, numbers, variant,
                                                              (score_tile, size_tile, value_tile), functions)
    scratch = f.offset(s.scratch, f.mul(worker, s.scratch_bytes))
    units = lambda: f.loop(begin, end, 1, [], lambda unit, _: writer.unit(unit, scratch))
    configured(f, units) if numbers.tiles else units()
    f.ret()
    return module.text()


def write_rows(module, numbers, variant, modify=None, name="rows"):
    """A function that turns rows of two matmuls, queries x keys (scores without the factor `log_scale`) and gradients x
    values, into probabilities and gradients of scores.

    It takes as many rows as `numbers` multiplies at once. Float32 results overwrite the inputs. Pairs of 16-bit floats:
    the gradients overwrite `products`, and `pairs` gets words of two rows, of probabilities and then of gradients.
    `variant` and `modify` are as in `write_row`; their parameters follow, those of the first row: the dropout bits and
    factor, then the user's; later rows increment the query.
    """
    count, dtype, mask = numbers.per_word, variant.dtype, mask_of(variant.mask)
    parameters = [("scores", ptr), ("products", ptr), ("pairs", ptr), ("totals", ptr), ("deltas", ptr), ("padded", i64),
                  ("scale", f32), ("log_scale", f32)]
    parameters += [(f"{name}{r}", kind) for r in range(count) for name, kind in (("limit", i64), ("mask", ptr))]
    parameters += [("kept", ptr), ("larger", f32)] if variant.drops else []
    f = module.function(name, parameters + (modify.parameters if modify else []), internal=True)
    scores, products, pairs, totals, deltas, padded, scale, log_scale, *each = f.parameters
    each, where = each[:2 * count], each[2 * count:]
    kept, larger = (where.pop(0), f.splat(where.pop(0), numbers.lanes)) if variant.drops else (None, None)
    modified = [modify.within(f, [*where[:2], f.add(where[2], r), *where[3:]])
                for r in range(count)] if modify else None
    limits, masks = each[::2], each[1::2]
    lanes, kind = numbers.lanes, numbers.vector
    factor, log_factor = f.splat(scale, lanes), f.splat(log_scale, lanes)
    block = block_of(numbers)
    row = block.keys * 4
    total, delta = ([f.splat(f.load(f32, f.offset(at, 4 * r)), lanes) for r in range(count)] for at in (totals, deltas))

    def one(k, r, tail):
        left = f.sub(limits[r], k) if tail else None
        raw = f.load(kind, f.offset(f.offset(scores, r * row), k, f32))
        if modify or mask.name:
            plain = score = f.mul(raw, log_factor)
            if modify:
                score = modified[r].scores(plain, k, left)
            if mask.name:
                score = mask.apply(f, score, f.offset(masks[r], k, mask.element), left)
            score = f.sub(score, total[r])
        else:
            score = f.fma(raw, log_factor, f.neg(total[r]))
        probability = power_of_two(f, score, dtype)
        product = f.load(kind, f.offset(f.offset(products, r * row), k, f32))
        weight = probability
        if variant.drops:
            there = kept_lanes(f, f.offset(kept, r * dropout.row_bytes(block.keys)), k, lanes)
            weight, product = (f.select(there, f.mul(x, larger), zero(kind)) for x in (weight, product))
        gradient = f.mul(probability, f.mul(f.sub(product, delta[r]), factor))
        if modify:
            gradient = modified[r].gradients(gradient, plain, k, left)
        if not tail:
            return weight, gradient
        there = f.lane_mask(left, lanes)
        return f.select(there, weight, zero(kind)), f.select(there, gradient, zero(kind))

    def step(k, tail):
        found = [one(k, r, tail) for r in range(count)]
        if count == 1:
            for value, target in zip(found[0], (scores, products)):
                f.store(value, f.offset(target, k, f32))
            return
        element = numbers.element
        for r, (_, gradient) in enumerate(found):
            f.store(rounded_operand(f, gradient, element), f.offset(f.offset(products, r * row), k, element))
        for values, place in zip(zip(*found), (0, block.queries * block.keys * 2)):
            low, high = (f.cast("zext", f.bitcast(rounded_operand(f, v, element), vector(i16, lanes)), numbers.words)
                         for v in values)
            f.store(f.or_(low, f.shl(high, 16)), f.offset(f.offset(pairs, place), k, i32))

    whole = limits[0] if count == 1 else f.minimum(*limits)
    whole = f.mul(f.div(whole, lanes), lanes)
    f.loop(0, whole, lanes, [], lambda k, _: step(k, False))
    f.loop(whole, padded, lanes, [], lambda k, _: step(k, True))
    f.ret()
    return f


class _Backward:
    """Emits the loops of the kernel, from the outside in."""

    def __init__(self, b, s, numbers, variant, tiles, functions):
        self.b, self.s, self.numbers, self.variant, self.functions = b, s, numbers, variant, functions
        self.mask, self.causal, self.modification = mask_of(variant.mask), variant.causal, variant.modification
        self.score_tile, self.size_tile, self.value_tile = tiles
        self.score_width, self.size_width, self.value_width = (vectors * numbers.lanes for _, vectors in tiles)
        self.queries_at_once, self.keys_at_once = block_of(numbers).queries, block_of(numbers).keys
        self.per_chunk = numbers.chunk * numbers.per_word  # elements along k

    def unit(self, unit, scratch):
        """Emit the work of a head of keys with the heads of queries that share it."""
        b, s = self.b, self.s
        shared_heads = b.div(s.heads, s.sharing)
        self.batch = b.div(unit, shared_heads)
        self.shared = b.sub(unit, b.mul(self.batch, shared_heads))
        self.scratch = scratch
        q_first, self.queries, self.row_number = sequence(b, s, self.variant, "q", self.batch, s.queries)
        k_first, self.keys, _ = sequence(b, s, self.variant, "k", self.batch, s.keys)
        self.firsts = {"k": k_first, "v": k_first, "grad_k": k_first, "grad_v": k_first, "q": q_first,
                       "grad_q": q_first, "out": q_first,
                       "grad": q_first, "mask": q_first}
        b.loop(0, s.sharing, 1, [], lambda member, _: self.pack_queries(member))
        b.loop(0, self.keys, self.keys_at_once, [], lambda key, _: self.key_block(key))
        b.loop(0, s.sharing, 1, [], lambda member, _: self.store(
            "grad_q", self.place("grad_q", self.head(member)), self.at("q_sums", member), self.queries, s.size,
            self.size_width, self.queries_at_once))

    def at(self, name, member=None):
        """The address of a buffer in scratch, or a head's part of it."""
        b, s = self.b, self.s
        place = b.offset(self.scratch, getattr(s, f"{name}_at"))
        return place if member is None else b.offset(place, b.mul(member, getattr(s, f"{name}_bytes")))

    def head(self, member):
        return self.b.add(self.b.mul(self.shared, self.s.sharing), member)

    def place(self, name, head):
        """The address of an operand's matrix for a head."""
        b, s = self.b, self.s
        offset = b.add(b.mul(self.batch, getattr(s, f"{name}_batch")), b.mul(head, getattr(s, f"{name}_head")))
        return b.offset(getattr(s, name), b.add(offset, b.mul(self.firsts[name], getattr(s, f"{name}_row"))))

    def panels(self, width, source, row_bytes, columns, depth, target, panel_bytes):
        """Pack a matrix into panels across its columns."""
        b = self.b

        def panel(at, _):
            to = b.offset(target, b.mul(b.div(at, width), panel_bytes))
            elements = Strided(b, self.numbers, b.offset(source, at, self.numbers.element), k=row_bytes)
            pack.write_panel(b, width, elements, to, b.sub(columns, at), depth)

        b.loop(0, columns, width, [], panel)

    def across(self, source, row_bytes, rows, depth, target, panel_bytes):
        """Pack a matrix's rows into panels of the scores' tile."""
        b = self.b

        def panel(at, _):
            to = b.offset(target, b.mul(b.div(at, self.score_width), panel_bytes))
            elements = Strided(b, self.numbers, b.offset(source, b.mul(at, row_bytes)), lane=row_bytes)
            pack.write_transposed_panel(b, self.score_width, elements, to, b.sub(rows, at), depth)

        b.loop(0, rows, self.score_width, [], panel)

    def row_values(self, member):
        """Addresses of a head's totals (in units of log 2) and deltas."""
        b, s = self.b, self.s
        totals = b.offset(self.at("rows"), b.mul(member, b.mul(s.padded_queries, 8)))
        return totals, b.offset(totals, s.padded_queries, f32)

    def pack_queries(self, member):
        """Pack a head of queries and of gradients both ways, compute the totals and deltas of its rows, and clear the
        sums of their gradients."""
        b, s, numbers = self.b, self.s, self.numbers
        head = self.head(member)
        blocks = b.div(b.add(self.queries, self.queries_at_once - 1), self.queries_at_once)
        b.fill_bytes(self.at("q_sums", member), 0,
                     b.mul(blocks, b.mul(s.size_panels, self.queries_at_once * self.size_width * 4)))
        for name, size, width, panels, panel_bytes in (
                ("q", s.size, self.size_width, s.size_panels, s.q_panel_bytes),
                ("grad", s.value_size, self.value_width, s.value_panels, s.grad_panel_bytes)):
            source, row_bytes = self.place(name, head), getattr(s, f"{name}_row")
            quads = self.at(f"{name}_quads", member)
            pack.write_quads(b, self.score_tile[0], Strided(b, numbers, source, lane=row_bytes), quads, self.queries,
                             size)
            target = b.offset(self.at(f"{name}_panels"), b.mul(member, b.mul(panels, panel_bytes)))
            self.pack_across(width, source, row_bytes, size, target, panel_bytes)
        self.pack_rows(member, head)

    def pack_across(self, width, source, row_bytes, size, target, panel_bytes):
        """Pack a head of queries or of gradients for the gradients of keys or values."""
        self.panels(width, source, row_bytes, size, self.queries, target, panel_bytes)

    def pack_rows(self, member, head):
        """delta = sum of gradient x output over a row: the term that the softmax's derivative subtracts."""
        b, s, numbers = self.b, self.s, self.numbers
        lanes = numbers.lanes
        kind = vector(numbers.element, lanes)
        totals, deltas = self.row_values(member)
        b.fill_bytes(totals, 0, b.mul(s.padded_queries, 8))
        number = head if self.variant.ragged else b.add(b.mul(self.batch, s.heads), head)
        lse = b.offset(s.lse, b.add(b.mul(number, s.queries), self.row_number), f32)
        grad, out, grad_row, out_row = self.place("grad", head), self.place("out", head), s.grad_row, s.out_row

        def row(r, _):
            left, right = b.offset(grad, b.mul(r, grad_row)), b.offset(out, b.mul(r, out_row))

            def some(at, found):
                mask = b.lane_mask(b.sub(s.value_size, at), lanes)
                x, y = (b.convert(b.load(kind, b.offset(p, at, numbers.element), mask=mask), f32)
                        for p in (left, right))
                return [b.fma(x, y, found[0])]

            found, = b.loop(0, s.value_size, lanes, [zero(numbers.vector)], some)
            b.store(b.reduce("add", found), b.offset(deltas, r, f32))
            b.store(b.mul(b.load(f32, b.offset(lse, r, f32)), LOG2E), b.offset(totals, r, f32))

        b.loop(0, self.queries, 1, [], row)

    def key_block(self, key):
        """Emit a block of keys against every block of queries that attends to it; then its gradients are final."""
        b, s = self.b, self.s
        count = b.minimum(b.sub(self.keys, key), self.keys_at_once)
        k, v = (b.offset(self.place(name, self.shared), b.mul(key, getattr(s, f"{name}_row"))) for name in "kv")
        self.across(k, s.k_row, count, s.size, self.at("k_across"), s.k_across_bytes)
        self.across(v, s.v_row, count, s.value_size, self.at("v_across"), s.v_across_bytes)
        self.panels(self.size_width, k, s.k_row, s.size, count, self.at("k_panels"), s.k_panel_bytes)
        b.fill_bytes(self.at("k_sums"), 0, b.mul(s.size_panels, self.keys_at_once * self.size_width * 4))
        b.fill_bytes(self.at("v_sums"), 0, b.mul(s.value_panels, self.keys_at_once * self.value_width * 4))
        begin = b.mul(b.div(key, self.queries_at_once), self.queries_at_once) if self.causal else 0
        b.loop(0, s.sharing, 1, [], lambda member, _: b.loop(
            begin, self.queries, self.queries_at_once, [], lambda row, _: self.block(member, row, key, count)))
        for name, size, width in (("k", s.size, self.size_width), ("v", s.value_size, self.value_width)):
            target = self.place(f"grad_{name}", self.shared)
            target = b.offset(target, b.mul(key, getattr(s, f"grad_{name}_row")))
            self.store_keys(f"grad_{name}", target, self.at(f"{name}_sums"), count, size, width)

    def store_keys(self, name, target, sums, count, size, width):
        """Write the finished sums of a block of keys into a gradient."""
        self.store(name, target, sums, count, size, width, self.keys_at_once)

    def block(self, member, row, key, count):
        """Emit one block of queries against one block of keys, unless it is fully masked."""
        b, s = self.b, self.s
        rows = b.minimum(b.sub(self.queries, row), self.queries_at_once)
        if self.causal:
            count = b.minimum(count, b.sub(b.add(row, rows), key))
        if has_blocks(self.modification):
            some, all_of_it = block_states(b, s, self.batch, self.head(member), row, rows, key, count)
            b.when(some, lambda: self.look(member, row, rows, key, count, s.mask, all_of_it))
            return
        if not self.mask.name:
            self.look(member, row, rows, key, count, s.mask)
            return
        step = s.mask_row
        at = b.offset(b.offset(self.place("mask", self.head(member)), b.mul(row, step)), key, self.mask.element)
        b.when(any_allowed(b, self.mask, at, step, rows, count, self.numbers.lanes),
               lambda: self.look(member, row, rows, key, count, at))

    def look(self, member, row, rows, key, count, mask_at, everybody=None):
        """Compute probabilities and gradients of scores, and add to the gradients of queries, keys and values."""
        b, s, numbers = self.b, self.s, self.numbers
        scores, products = self.at("scores"), self.at("products")
        self.multiply_scores(self.at("q_quads", member), "k_across", s.size, row, rows, count, scores)
        self.multiply_scores(self.at("grad_quads", member), "v_across", s.value_size, row, rows, count, products)
        choose(b, everybody, self.functions["rows"],
               lambda function: self.differentiate(function, member, row, rows, key, count, mask_at))
        chunks, depth = (b.div(b.add(n, self.per_chunk - 1), self.per_chunk) for n in (count, rows))
        block_bytes = b.mul(s.size_panels, self.queries_at_once * self.size_width * 4)
        sums = b.offset(self.at("q_sums", member), b.mul(b.div(row, self.queries_at_once), block_bytes))
        self.add("queries", self.size_tile[0], products, self.keys_at_once * 4, self.at("k_panels"), s.k_panel_bytes,
                 chunks, sums,
                 self.queries_at_once, self.size_width, rows, s.size_panels)
        pairs = self.at("pairs")
        weights, gradients = (scores, products) if numbers.per_word == 1 else (
            pairs, b.offset(pairs, self.queries_at_once * self.keys_at_once * 2))
        self.add_turned("values", self.value_tile, weights, "grad", s.value_panels, "v_sums", member, row, depth, count)
        self.add_turned("keys", self.size_tile, gradients, "q", s.size_panels, "k_sums", member, row, depth, count)

    def add_turned(self, name, tile, left, operand, number, sums, member, row, depth, count):
        """Add the contribution of a block of weights, or of gradients of scores, to the gradients of values or keys."""
        b, s, numbers = self.b, self.s, self.numbers
        width, panel_bytes = tile[1] * numbers.lanes, getattr(s, f"{operand}_panel_bytes")
        source = b.offset(self.at(f"{operand}_panels"), b.mul(member, b.mul(number, panel_bytes)))
        source = b.offset(source, b.mul(b.div(row, numbers.per_word), width * numbers.word.bytes))
        self.add(name, tile[0], left, numbers.word.bytes, source, panel_bytes, depth, self.at(sums), self.keys_at_once,
                 width, count, number)

    def multiply_scores(self, quads, panels, size, row, rows, count, target):
        """Multiply a block of packed rows by packed keys or values."""
        b, s, numbers = self.b, self.s, self.numbers
        tile_rows = self.score_tile[0]
        chunks = b.div(b.add(size, self.per_chunk - 1), self.per_chunk)
        tile_bytes = b.mul(chunks, tile_rows * numbers.chunk * numbers.word.bytes)
        quads = b.offset(quads, b.mul(b.div(row, tile_rows), tile_bytes))

        def panel(at, _):
            source = b.offset(self.at(panels), b.mul(b.div(at, self.score_width), getattr(s, f"{panels}_bytes")))
            b.loop(0, rows, tile_rows, [], lambda r, _: b.call(self.functions["scores"], [
                b.offset(quads, b.mul(b.div(r, tile_rows), tile_bytes)), source, chunks,
                b.offset(target, b.add(b.mul(r, self.keys_at_once), at), f32)]))

        b.loop(0, count, self.score_width, [], panel)

    def differentiate(self, function, member, row, rows, key, count, mask_at):
        """Run the row function over the block, and over missing rows that the matmuls' loop along k would read."""
        b, s, numbers = self.b, self.s, self.numbers
        step = numbers.per_word
        scale, log_scale = (b.bitcast(b.cast("trunc", value, i32), f32) for value in (s.scale, s.log_scale))
        # up to the end of a tile of keys
        run = self.per_chunk if numbers.tiles else self.queries_at_once
        padded = b.mul(b.div(b.add(count, run - 1), run), run)
        totals, deltas = self.row_values(member)
        mask_row = s.mask_row
        if self.variant.drops:
            kept, larger = self.at("kept"), dropout.scale(b, s)
            number = b.add(b.mul(self.batch, s.heads), self.head(member))
            dropout.decide(b, s, self.functions["keep"], kept, number, row, rows, key, count)

        def some(r, _):
            arguments = [b.offset(self.at("scores"), b.mul(r, self.keys_at_once), f32),
                         b.offset(self.at("products"), b.mul(r, self.keys_at_once), f32),
                         b.offset(self.at("pairs"), b.mul(b.div(r, step), self.keys_at_once), i32),
                         b.offset(totals, b.add(row, r), f32), b.offset(deltas, b.add(row, r), f32), padded, scale,
                         log_scale]
            for k in range(step):
                number = b.add(r, k)
                limit = count
                if self.causal:
                    limit = b.maximum(b.minimum(count, b.sub(b.add(b.add(row, number), 1), key)), 0)
                limit = b.select(b.compare("<", number, rows), limit, 0)
                arguments += [limit, b.offset(mask_at, b.mul(number, mask_row))]
            if self.variant.drops:
                arguments += [b.offset(kept, b.mul(r, dropout.row_bytes(self.keys_at_once))), larger]
            b.call(function, arguments + where_of(s, self.modification, self.batch, self.head(member), b.add(row, r),
                                                  key))

        b.loop(0, b.mul(b.div(b.add(rows, self.per_chunk - 1), self.per_chunk), self.per_chunk), step, [], some)

    def add(self, name, tile_rows, left, left_row, source, panel_bytes, chunks, sums, rows_there, width, rows, panels):
        """Add a matmul to sums, panel after panel, tile after tile."""
        b = self.b

        def panel(number, _):
            from_ = b.offset(source, b.mul(number, panel_bytes))
            to = b.offset(sums, b.mul(number, rows_there * width * 4))
            b.loop(0, rows, tile_rows, [], lambda r, _: b.call(self.functions[name], [
                b.offset(left, b.mul(r, left_row)), from_, chunks, b.offset(to, b.mul(r, width), f32)]))

        b.loop(0, panels, 1, [], panel)

    def store(self, name, target, sums, rows, size, width, rows_there):
        """Write finished sums, blocks of `rows_there` rows, into a gradient."""
        b, lanes, element = self.b, self.numbers.lanes, self.numbers.element
        row_bytes = getattr(self.s, f"{name}_row")
        panels = b.div(b.add(size, width - 1), width)

        def row(r, _):
            block = b.div(r, rows_there)
            within = b.mul(b.sub(r, b.mul(block, rows_there)), width)

            def columns(at, _):
                number = b.div(at, width)
                place = b.add(b.mul(b.add(b.mul(block, panels), number), rows_there * width), within)
                place = b.add(place, b.sub(at, b.mul(number, width)))
                value = b.convert(b.load(self.numbers.vector, b.offset(sums, place, f32)), element)
                b.store(value, b.offset(b.offset(target, b.mul(r, row_bytes)), at, element),
                        mask=b.lane_mask(b.sub(size, at), lanes))

            b.loop(0, size, lanes, [], columns)

        b.loop(0, rows, 1, [], row)


class _TiledBackward(_Backward):
    """With AMX tiles, the gradients of keys and values are computed as their transposes: the words of a block of
    weights, two rows in one, are an operand without repacking, and only the sums of a block of keys are transposed at
    the end."""

    def pack_across(self, width, source, row_bytes, size, target, panel_bytes):
        elements = Strided(self.b, self.numbers, source, k=row_bytes)
        pack.write_turned_quads(self.b, width, elements, target, size, self.queries)

    def add_turned(self, name, tile, left, operand, number, sums, member, row, depth, count):
        b, s = self.b, self.s
        rows, width = tile[0], tile[1] * self.numbers.lanes
        steps = b.div(b.add(self.queries, self.per_chunk - 1), self.per_chunk)
        source = b.offset(self.at(f"{operand}_panels"),
                          b.mul(member, b.mul(number, getattr(s, f"{operand}_panel_bytes"))))
        source = b.offset(source, b.mul(b.div(row, self.per_chunk), rows * ROW_BYTES))

        def tile_rows(r, _):
            quads = b.offset(source, b.mul(r, b.mul(steps, rows * ROW_BYTES)))
            to = b.offset(self.at(sums), b.mul(r, rows * self.keys_at_once * 4))
            b.loop(0, count, width, [],
                   lambda at, _: b.call(self.functions[name],
                                        [quads, b.offset(left, at, f32), depth, b.offset(to, at, f32)]))

        b.loop(0, number, 1, [], tile_rows)

    def store_keys(self, name, target, sums, count, size, width):
        b, lanes, element = self.b, self.numbers.lanes, self.numbers.element
        row_bytes = getattr(self.s, f"{name}_row")

        def square(key, at):
            source = b.offset(b.offset(sums, b.mul(at, self.keys_at_once), f32), key, f32)
            rows = [b.load(self.numbers.vector, b.offset(source, r * self.keys_at_once * 4)) for r in range(lanes)]
            to = b.offset(b.offset(target, b.mul(key, row_bytes)), at, element)
            for lane, row in enumerate(pack.transpose(b, rows)):
                left = b.select(b.compare("<", b.add(key, lane), count), b.sub(size, at), 0)
                b.store(b.convert(row, element), b.offset(to, b.mul(row_bytes, lane)), mask=b.lane_mask(left, lanes))

        b.loop(0, count, lanes, [], lambda key, _: b.loop(0, size, lanes, [], lambda at, _: square(key, at)))
