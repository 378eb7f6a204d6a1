"""Plan attention: softmax(q k^T * scale + mask) v and its gradients, without materializing the scores."""

import struct

from ....ops import dropping
from ...shared.attention import Attention
from ..llvm import pool
from ..llvm.features import remembered
from . import dropout, few, flash, flash_backward
from .contraction import Contraction, KernelCall, numbers, tile_numbers
from .scores import numbers_of, tile_of
from .softmax import LOG2E

DTYPES = ("float32", "bfloat16", "float16")
# queries that share a packed block of keys: their sums fit the L2 cache, which is large on CPUs with AMX tiles
_CHUNK_ROWS = 480, 1024

_FEW_ROWS = (4, 8, 12)  # a decoder's few queries need tiles of few rows; those for 4 rows and more divide a block's


def plan_attention(problem):
    """Plan attention; operands are "q", "k", "v", "mask" (if any), "out" and "lse" (float32 [batch, heads, queries]).

    `lse` gets the logsumexp of each row, infinity for fully masked rows, whose output is 0.  Raises ValueError for
    dtypes other than float32, bfloat16 and float16, and for strides other than 1 within rows.

    Example:
        >>> from rushlight._src.ops.flash import AttentionSpec
        >>> strides = (512, 256, 8, 1)
        >>> spec = AttentionSpec(causal=False, scale=0.35)
        >>> plan = plan_attention(Attention(1, 2, 1, 32, 32, 8, 8, strides, strides, strides, strides, "float32", spec))
        >>> len(plan.steps)
        1
    """
    _check(problem)
    return _forward(problem, pool.get_num_threads())


def plan_attention_backward(problem):
    """Plan the gradients of attention: "q", "k", "v", "mask" (if any), "out", "lse" (of the forward) and "grad" (of
    out) in, "grad_q", "grad_k" and "grad_v" out.

    Strides in addition to those of the forward are the problem's `grad`, `grad_q`, `grad_k` and `grad_v`. Errors are as
    in `plan_attention`.
    """
    _check(problem)
    return _backward(problem, pool.get_num_threads())


def _check(p):
    if p.dtype not in DTYPES:
        raise ValueError(f"attention of {p.dtype}; there is a kernel for {', '.join(DTYPES)}")
    for name in ("q", "k", "v", "out", "mask_strides", "grad", "grad_q", "grad_k", "grad_v"):
        if getattr(p, name)[-1] != 1 and not (name == "mask_strides" and not p.mask):
            raise ValueError(
                f"attention wants unit stride in the last dimension of {name}; its strides are {getattr(p, name)}")


@remembered(1024)
def _forward(p, threads):
    if not p.batch * p.heads * p.queries * p.value_size:
        return Contraction((), {})
    most = p.most[0]
    kind = numbers_of(p.dtype, is_few(p))
    block = flash.block_of(kind)
    rows = next((rows for rows in _FEW_ROWS if rows >= most), min(most, block.queries) if kind.tiles else block.queries)
    score_tile, value_tile = (tile_of(kind, rows, columns, block) for columns in (block.keys, p.value_size))
    if is_few(p):
        value_tile = 1, few.VECTORS
    kernel = flash.flash_kernel(kind, variant(p), score_tile, value_tile)
    chunk_rows = _chunk_rows(p, threads, block.queries, _CHUNK_ROWS[bool(kind.tiles)])
    layout = Scratch()
    layout.add("queries_at", quad_bytes(kind, chunk_rows, score_tile[0], p.size))
    key_width, value_width = score_tile[1] * kind.lanes, value_tile[1] * kind.lanes
    key_panel, value_panel = panel_bytes(kind, p.size, key_width), panel_bytes(kind, block.keys, value_width)
    value_panels = -(-p.value_size // value_width)
    layout.add("keys_at", block.keys // key_width * key_panel)
    layout.add("values_at", value_panels * value_panel)
    layout.add("scores_at", block.queries * block.keys * 4)
    layout.add("sums_at", chunk_rows * value_panels * value_width * 4)
    layout.add("state_at", (2 * chunk_rows + block.queries) * 4 + 256)
    layout.add("kept_at", block.queries * dropout.row_bytes(block.keys))
    chunks = -(-most // chunk_rows)
    size = kind.element.bytes
    slots = {
        "heads": p.heads, "sharing": p.sharing, "queries": p.queries, "keys": p.keys, "size": p.size,
        "value_size": p.value_size,
        "chunks": chunks, "chunk_rows": chunk_rows, "scale": float_bits(p.spec.scale * score_unit(p)),
        "key_panel_bytes": key_panel, "value_panel_bytes": value_panel, "value_panels": value_panels,
        "scratch_bytes": layout.bytes, **layout.places, **strides(p, ("q", "k", "v", "out"), size), **mask_strides(p),
        **drop_slots(p)}
    sources = {name: ("pointer", name, 0) for name in ("q", "k", "v", "out", "lse")} | shared_sources(p)
    units = p.batch * p.heads * chunks
    step = KernelCall(kernel, units, 1, filled(flash.SLOTS, sources, slots, p))
    return Contraction((step,), {"scratch": layout.bytes * threads})


@remembered(1024)
def _backward(p, threads):
    shared_heads = p.heads // p.sharing
    if not p.batch * shared_heads * (p.queries + p.keys) * (p.size + p.value_size):
        return Contraction((), {})
    kind = numbers_of(p.dtype, False)
    block = flash_backward.block_of(kind)
    score_tile, size_tile, value_tile = (tile_of(kind, *sizes, block) for sizes in (
        (block.queries, block.keys), (block.keys, p.size), (block.keys, p.value_size)))
    kernel = flash_backward.flash_backward_kernel(kind, variant(p), score_tile, size_tile, value_tile)
    score_width, size_width, value_width = (vectors * kind.lanes for _, vectors in (score_tile, size_tile, value_tile))
    size_panels, value_panels = -(-p.size // size_width), -(-p.value_size // value_width)
    most = p.most[0]
    padded = -(-most // block.queries) * block.queries
    across = [quad_bytes(kind, width, width, most) if kind.tiles else panel_bytes(kind, most, width)
              for width in (size_width, value_width)]
    sizes = {
        "q_quads": quad_bytes(kind, padded, score_tile[0], p.size), "q_panel": across[0],
        "grad_quads": quad_bytes(kind, padded, score_tile[0], p.value_size), "grad_panel": across[1],
        "q_sums": padded * size_panels * size_width * 4, "k_panel": panel_bytes(kind, block.keys, size_width),
        "k_across": panel_bytes(kind, p.size, score_width), "v_across": panel_bytes(kind, p.value_size, score_width)}
    layout = Scratch()
    for name in ("q_quads", "grad_quads", "q_sums"):
        layout.add(f"{name}_at", p.sharing * sizes[name])
    layout.add("q_panels_at", p.sharing * size_panels * sizes["q_panel"])
    layout.add("grad_panels_at", p.sharing * value_panels * sizes["grad_panel"])
    layout.add("rows_at", p.sharing * padded * 8)
    layout.add("k_across_at", block.keys // score_width * sizes["k_across"])
    layout.add("v_across_at", block.keys // score_width * sizes["v_across"])
    layout.add("k_panels_at", size_panels * sizes["k_panel"])
    for name in ("scores_at", "products_at", "pairs_at"):
        layout.add(name, block.queries * block.keys * 4)
    layout.add("kept_at", block.queries * dropout.row_bytes(block.keys))
    layout.add("k_sums_at", block.keys * size_panels * size_width * 4)
    layout.add("v_sums_at", block.keys * value_panels * value_width * 4)
    slots = {
        "heads": p.heads, "sharing": p.sharing, "queries": p.queries, "keys": p.keys, "size": p.size,
        "value_size": p.value_size,
        "scale": float_bits(p.spec.scale), "log_scale": float_bits(p.spec.scale * score_unit(p)),
        "padded_queries": padded,
        "size_panels": size_panels, "value_panels": value_panels, "scratch_bytes": layout.bytes, **layout.places,
        **{f"{name}_bytes": size for name, size in sizes.items()}, **mask_strides(p), **drop_slots(p),
        **strides(p, ("q", "k", "v", "out", "grad", "grad_q", "grad_k", "grad_v"), kind.element.bytes)}
    sources = {name: ("pointer", name, 0) for name in flash_backward.POINTERS} | shared_sources(p)
    step = KernelCall(kernel, p.batch * shared_heads, 1, filled(flash_backward.SLOTS, sources, slots, p))
    return Contraction((step,), {"scratch": layout.bytes * threads})


def is_few(p):
    """True if queries are so few that packing keys for them takes longer than reading the keys for each."""
    return p.most[0] <= (few.MOST_BESIDE_TILES if tile_numbers(p.dtype) else few.MOST)


def variant(p):
    return flash.Variant(p.dtype, p.mask, p.spec.causal, bool(p.spec.longest), p.spec.drop > 0, is_few(p), p.spec.mods)


def shared_sources(p):
    """Sources of the optional operands of both kernels; constant 0 for those that a problem lacks."""
    found = {"scratch": ("temp", "scratch", 0)}
    for names, there in ((("mask",), p.mask), (flash.RAGGED, p.spec.longest), (("seed", "place"), p.spec.drop)):
        found.update((name, ("pointer", name, 0) if there else ("const", 0)) for name in names)
    return found


def drop_slots(p):
    """The slots of dropout, except its RNG offset and its address in scratch."""
    rows, columns = p.tiles
    return {"threshold": p.spec.drop, "row_tiles": rows, "column_tiles": columns,
            "larger": float_bits(dropping.larger(p.spec.drop))}


def score_unit(p):
    """The unit of scores: log 2, unless a user's function modifies the scores."""
    return 1.0 if p.spec.mods is not None and p.spec.mods.score is not None else LOG2E


def filled(names, sources, values, p):
    """The contents of a kernel's slots, with those of a modification."""
    m = p.spec.mods
    if m is not None:
        names = (*names, *m.names)
        sources = {**sources, **{name: ("pointer", name, 0) for name in m.pointers if m.mask is not None
                                 or name != "blocks"}}
        values = {**values, "blocks": 0, "block_queries": p.block[0], "block_keys": p.block[1],
                  **{f"blocks_{dim}": stride for dim, stride in zip(("batch", "head", "row"), p.blocks)}}
    return tuple(sources.get(name) or ("const", values[name]) for name in names)


def _chunk_rows(p, threads, rows, most):
    """Queries of a work unit: many, so that packing keys costs little, but enough units for all threads."""
    wanted = 1 if threads == 1 else 4 * threads
    queries = p.most[0]
    chunks = max(-(-queries // most), min(-(-queries // rows), -(-wanted // (p.batch * p.heads))))
    return -(-(-(-queries // chunks)) // rows) * rows


class Scratch:
    """Offsets of a worker's buffers, each on a page of its own."""

    def __init__(self):
        self.places, self.bytes = {}, 0

    def add(self, name, size):
        self.places[name] = self.bytes
        self.bytes += -(-size // 4096) * 4096


def words(kind, count):
    """Words along k of `count` elements, padded to a chunk."""
    return -(-count // (kind.chunk * kind.per_word)) * kind.chunk


def quad_bytes(kind, rows, tile_rows, depth):
    """Bytes of rows packed into quads."""
    return -(-rows // tile_rows) * tile_rows * words(kind, depth) * kind.word.bytes + 64


def panel_bytes(kind, depth, width):
    """Bytes of one packed panel; packing may write a vector of rows past its end."""
    return (words(kind, depth) + kind.lanes) * width * kind.word.bytes + 64


def strides(p, operands, itemsize):
    """The byte strides of operands by slot name; packed (varlen) sequences have no batch stride."""
    return {f"{operand}_{dim}": 0 if p.spec.longest and dim == "batch" else stride * itemsize for operand in operands
            for dim, stride in zip(("batch", "head", "row"), getattr(p, operand))}


def mask_strides(p):
    itemsize = 1 if p.mask in ("", "bool") else numbers(p.mask).element.bytes
    return {f"mask_{dim}": stride * itemsize for dim, stride in zip(("batch", "head", "row"), p.mask_strides)}


def float_bits(value):
    """The bits of a float32, as a slot holds them."""
    return struct.unpack("<i", struct.pack("<f", value))[0]
