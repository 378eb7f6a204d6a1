"""Plans of matmuls without packing: few rows (stream.py, stream_tiled.py), or small matrices (direct.py)."""

from ....core.shape_env import guess
from ..llvm import tiles
from ..llvm.features import targeted
from . import blocked, direct, stream, stream_tiled
from .contraction import ELEMENTS, Contraction, KernelCall, tile_numbers, written_slots
from .portions import ALONE, NO_BATCH, batch_slots, grain, product, round_up, work
from .registers import register_tiles
from .tune import pick

STREAMED_ROWS = 4  # of C: with more rows, the traffic of partial sums outweighs the saved packing
_STREAM_BYTES = 16 << 10  # of C that stay in the L1 cache


def plan(p, kind, epilogue, threads):
    """Return the plan of a normalized Matmul (matmul.py) that packs nothing, or None if packing pays off."""
    if _wants_streams(p, kind) and pick("streams", (True, False)):
        return stream_plan(p, kind, epilogue, threads)
    if _wants_no_packing(p, kind) and pick("direct", (True, False)):
        return direct_plan(p, kind, epilogue, threads)
    return None


def _wants_streams(p, kind):
    """True for few rows and a B with contiguous columns: its rows are read once, in place."""
    return (p.rows <= STREAMED_ROWS and p.b[-1] == 1 and p.columns >= 4 * kind.lanes and p.depth >= 16
            and p.sums[0] == 1
            and kind.element is kind.word and ELEMENTS[p.out_dtype] is kind.accumulator)


def stream_plan(p, kind, epilogue, threads):
    """The plan of a skinny matmul that reads B sequentially."""
    size, out = kind.element.bytes, kind.accumulator.bytes
    batches = product(p.batch)
    most = max(4 * kind.lanes, _STREAM_BYTES // (out * p.rows))
    blocks = max(-(-p.columns // most), 1 if threads == 1 or work(p) < ALONE
                 else min(-(-4 * threads // batches), -(-p.columns // (8 * kind.lanes))))
    block_columns = round_up(-(-p.columns // blocks), kind.lanes)
    blocks = -(-p.columns // block_columns)
    slots = {"columns": p.columns, "depth": p.depth, "a_row": p.a[-2] * size, "a_k": p.a[-1] * size,
             "b_k": p.b[-2] * size, "c_row": p.c[-2] * out,
             "block_columns": block_columns, "column_blocks": blocks,
             **batch_slots(p, {"a": size, "b": size, "c": out}),
             "scratch_bytes": round_up(p.rows * block_columns * out, 64)}
    streams = min(8, (targeted().registers - 8) // p.rows)
    kernel = stream.stream_kernel(kind, p.rows, streams, epilogue)
    sources = {name: ("pointer", name, 0) for name in "abc"} | {"scratch": ("temp", "scratch", 0)}
    if epilogue.emit is None:  # partial sums are kept in C
        sources["scratch"] = ("const", 0)
    temporaries = {} if epilogue.emit is None else {"scratch": slots["scratch_bytes"] * threads}
    units = batches * blocks
    return Contraction((KernelCall(kernel, units, grain(p, units, threads),
                             written_slots(stream.SLOTS, slots, sources) + epilogue.slots),), temporaries)


_DIRECT_BYTES = 24 << 10  # of A and B, which stay in the L1 cache unpacked


def _wants_no_packing(p, kind):
    """True for small matrices whose B has contiguous columns, or tiny ones."""
    words = p.depth * (p.rows + p.columns)
    if p.b[-1] != 1 and (p.rows > 16 or p.depth > 16 or p.columns > 2 * kind.lanes):
        return False
    return p.depth and p.sums[0] == 1 and kind.element is kind.word and words * kind.word.bytes <= _DIRECT_BYTES


def direct_plan(p, kind, epilogue, threads):
    """The plan of a matmul of small matrices, read in place."""
    size, out = kind.element.bytes, ELEMENTS[p.out_dtype]
    options = [tile for tile, _ in register_tiles(False)] + [(8, 1), (4, 1), (2, 2), (1, 2),
                                                             (1, 1)] + [(16, 1), (8, 2)] * (targeted().registers > 16)
    high, across, depth = guess(p.rows), -(-guess(p.columns) // kind.lanes), guess(p.depth)

    def cycles(tile):
        rows, vectors = tile
        return -(-high // rows) * -(-across // vectors) * (max(rows * vectors / 2, 4, (rows + vectors) / 2) * depth
                                                           + 10 + rows)

    rows, vectors = min(options, key=cycles)
    slots = {"rows": p.rows, "columns": p.columns, "depth": p.depth, "a_row": p.a[-2] * size, "a_k": p.a[-1] * size,
             "b_k": p.b[-2] * size,
             "b_column": p.b[-1] * size, "c_row": p.c[-2] * out.bytes,
             **batch_slots(p, {"a": size, "b": size, "c": out.bytes})}
    kernel = direct.direct_kernel(kind, out, rows, vectors, p.a[-1] == 1, p.b[-1] != 1, epilogue)
    units = product(p.batch)
    sources = {name: ("pointer", name, 0) for name in "abc"}
    return Contraction((KernelCall(kernel, units, grain(p, units, threads),
                             written_slots(direct.SLOTS, slots, sources) + epilogue.slots),), {})


def wants_tiled_stream(p, kind):
    """True for few rows by a B whose columns are contiguous along k, in full rows of AMX tiles: it is read once, and
    packing would take longer than multiplying."""
    return (kind.tiles and not p.batch and p.sums[0] == 1 and p.rows <= stream_tiled.MOST <= p.columns
            and p.b[-2] == 1 and p.depth % (kind.chunk * kind.per_word) == 0)


def tiled_stream_plan(p, epilogue, threads):
    """The plan of a matmul whose B is loaded from memory into AMX tiles: A is packed as panels, then all columns."""
    kind, out = tile_numbers(p.b_dtype or p.dtype, p.dtype), ELEMENTS[p.out_dtype]
    size, (vectors, down) = kind.element.bytes, stream_tiled.grid(p.rows)
    chunks, panels = p.depth // (kind.chunk * kind.per_word), -(-p.rows // (vectors * kind.lanes))
    panel_bytes = chunks * vectors * tiles.TILE_BYTES + 64  # a store may spill
    own = {"columns": p.rows, "depth": p.depth, "b_k": p.a[-1] * size, "b_column": p.a[-2] * size, "panels": panels,
           "panel_bytes": panel_bytes, "b_sum": 0, **NO_BATCH}
    places = {"b": ("pointer", "a", 0), "packed": ("temp", "packed", 0)}
    pack = blocked.pack_kernel(kind, blocked.layout(p.a[-2], p.a[-1], p.rows, p.depth), vectors, None)
    slots = {"rows": p.rows, "columns": p.columns, "chunks": chunks, "b_column": p.b[-1] * size,
             "c_row": p.c[-2] * out.bytes,
             "scratch_bytes": down * p.depth * size, "panel_bytes": panel_bytes}
    sources = {"b": ("pointer", "b", 0), "packed": ("temp", "packed", 0), "c": ("pointer", "c", 0),
               "scratch": ("temp", "scratch", 0)}
    units = -(-p.columns // down)
    steps = (KernelCall(pack, panels, 1, written_slots(blocked.PACK_SLOTS, own, places)),
             KernelCall(stream_tiled.stream_kernel(kind, out, vectors, down, epilogue), units, grain(p, units, threads),
                  written_slots(stream_tiled.SLOTS, slots, sources) + epilogue.slots))
    return Contraction(steps, {"packed": panels * panel_bytes + 4096, "scratch": slots["scratch_bytes"] * threads})
