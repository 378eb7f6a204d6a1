"""Plan matrix multiplications: kernels, blocks and temporaries for given sizes and strides.

Kernels depend on dtypes, layouts and register tiles but not on sizes, so a new shape costs a plan, not a compilation.
"""

from dataclasses import dataclass, replace

from ....compiler.launch import Table
from ....core.shape_env import guess
from ..llvm import pool
from ..llvm.features import targeted
from . import blocked, combine, dot, unpacked
from .habits import habits
from .portions import ALONE, NO_BATCH, batch_slots, grain, moved, product, renamed, round_up, work
from .registers import FEW, register_tile
from .tune import pick, planned
from .blocked import ACROSS, ALONG, BATCH_DIMS, PACKED, TABLE, layout
from .contraction import ELEMENTS, NO_EPILOGUE, Contraction, KernelCall, numbers, tile_numbers, unpaired, written_slots
from .elements import Prologue, PrologueLayout, distance


@dataclass(frozen=True)
class Matmul:
    """A batched matmul C[batch, M, N] = A[batch, M, K] @ B[batch, K, N]; strides in elements, 0 where broadcast.

    `batch` is a tuple of sizes; `a`, `b` and `c` are strides: one per batch dimension, then the two of the matrix. C
    has unit stride along its columns. `b_dtype` is B's dtype for 8-bit integers of the other signedness; 8-bit integers
    are summed exactly in int32. `sums` = (count, stride of A, stride of B) adds up `count` matmuls: a batch dimension
    that C lacks. `a_parts` and `b_parts`: if a Prologue computes A or B, the strides of each of its parts; those of
    `sums` come last.
    `uses`: number of matmuls of a program that have this B, as the steps of a recurrent layer: it is packed once for
      all of them.
    `formats`: for float8, the formats of A and B, and True if accumulation may lose precision.
    `kept`: True if the packed form of B is likely to be kept from call to call.
    """

    batch: tuple
    rows: int
    columns: int
    depth: int
    a: tuple
    b: tuple
    c: tuple
    dtype: str = "float32"
    out_dtype: str = ""
    sums: tuple = (1, 0, 0)
    b_dtype: str = ""
    a_parts: tuple = ()
    b_parts: tuple = ()
    uses: int = 1
    formats: tuple = ()
    kept: bool = False

    @property
    def shared(self):
        """Key of the packed form of B; None if each matmul packs B in its own way."""
        return (self.columns, self.depth, self.batch, self.b, self.b_parts, self.dtype,
                self.b_dtype) if self.sums[0] == 1 else None


def plan_matmul(problem, epilogue=NO_EPILOGUE, a_from=None, b_from=None):
    """Plan a Matmul; operands are named "a", "b" and "c", and the epilogue's as its slots say.  `a_from` and `b_from`
    are the Prologues that compute A and B, from parts that are named "a0", "a1" and so on.

    Raises ValueError for dtypes without a matmul kernel, for more than three batch dimensions that do not merge, or
    when C has no unit stride along its columns.

    Example:
        >>> plan = plan_matmul(Matmul((), 4, 3, 5, (5, 1), (3, 1), (3, 1)))
        >>> len(plan.steps)
        1
    """
    p = _normalised(problem)
    return planned(_plan, (p, epilogue, pool.get_num_threads(), a_from, b_from), Operands(p, epilogue, a_from, b_from))


@dataclass(frozen=True)
class Operands:
    """The bytes that a matmul touches, by operand; called when they are needed."""

    problem: Matmul
    epilogue: object
    a_from: Prologue | None = None
    b_from: Prologue | None = None

    def __call__(self):
        p, size = self.problem, ELEMENTS[self.problem.dtype].bytes
        shapes = {"a": (p.rows, p.depth), "b": (p.depth, p.columns), "c": (p.rows, p.columns)}
        found = {name: extent((*p.batch, *shape), getattr(p, name)) * size for name, shape in shapes.items()}
        for operand, step in (("a", p.sums[1]), ("b", p.sums[2])):
            found[operand] += (p.sums[0] - 1) * step * size
        found["c"] = found["c"] // size * ELEMENTS[p.out_dtype].bytes
        for operand, given in (("a", self.a_from), ("b", self.b_from)):
            for k, strides in enumerate(getattr(p, f"{operand}_parts")):
                *own, last = strides
                elements = extent((*p.batch, *shapes[operand]), own) + (p.sums[0] - 1) * last
                found[f"{operand}{k}"] = elements * given.parts[k].itemsize
        return beside(self.epilogue, found["c"]) | found


def beside(epilogue, out_bytes):
    """Upper bound of the bytes of each operand that an epilogue reads in addition to an output of `out_bytes`."""
    return {slot[1]: 8 * out_bytes for slot in epilogue.slots if slot[0] == "pointer"}


def extent(shape, strides):
    """Elements from the first to the last of strided memory."""
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))


def _normalised(p):
    """The same matmul with sizes merged where strides allow: batches with each other, or into the rows."""
    if not p.batch:
        return p if p.out_dtype else replace(p, out_dtype=p.dtype)
    first = len(p.a_parts)
    dims = [dim for dim in zip(p.batch, p.a, p.b, p.c, *p.a_parts, *p.b_parts) if dim[0] != 1]
    merged = []
    for size, *strides in dims:
        if merged and all(last == size * stride for last, stride in zip(merged[-1][1:], strides)):
            merged[-1] = (merged[-1][0] * size, *strides)
        else:
            merged.append((size, *strides))
    a, b, c = p.a[-2:], p.b[-2:], p.c[-2:]
    a_parts, b_parts = ([part[len(p.batch):] for part in parts] for parts in (p.a_parts, p.b_parts))
    rows = p.rows
    if merged and _goes_on(merged[-1], rows, a, c, a_parts):
        size, a_stride, _, c_stride, *further = merged.pop()
        if rows == 1:
            a, c = (a_stride, a[1]), (c_stride, c[1])
            a_parts = [(stride, *part[1:]) for stride, part in zip(further, a_parts)]
        rows *= size
    if len(merged) > BATCH_DIMS:
        raise ValueError(
            f"a product over {len(merged)} batch dimensions that do not merge; at most {BATCH_DIMS} can be planned")
    batch = tuple(dim[0] for dim in merged)
    strides = [tuple(dim[k] for dim in merged) for k in range(1, 4 + first + len(b_parts))]
    parts = [own + tuple(part) for own, part in zip(strides[3:], (*a_parts, *b_parts))]
    return Matmul(batch, rows, p.columns, p.depth, strides[0] + tuple(a), strides[1] + tuple(b), strides[2] + tuple(c),
                  p.dtype, p.out_dtype or p.dtype, p.sums, p.b_dtype, tuple(parts[:first]), tuple(parts[first:]),
                  p.uses, p.formats, p.kept)


def _goes_on(dim, rows, a, c, a_parts):
    """True if a batch dimension, (size, strides of A, B, C and the parts), only adds rows."""
    _, a_stride, b_stride, c_stride, *further = dim
    if b_stride != 0 or any(further[len(a_parts):]):
        return False
    return rows == 1 or all(stride == rows * own
                            for stride, own in zip((a_stride, c_stride, *further),
                                                   (a[0], c[0], *(part[0] for part in a_parts))))


def _plan(p, epilogue, threads, a_from=None, b_from=None):
    if not p.rows or not p.columns or 0 in p.batch:
        return Contraction((), {})
    if p.c[-1] != 1 and p.columns > 1:
        raise ValueError(f"the output of a product needs unit stride along its columns; its strides are {p.c}. "
                         "For a transposed one swap the operands")
    kind = numbers(p.dtype, p.b_dtype)
    few = p.rows <= 16 or p.columns <= 16
    computed = a_from, b_from
    if p.columns == 1 < p.rows and p.c[-2] == 1 == p.a[-2] and not p.b_dtype and (epilogue, *computed) == (NO_EPILOGUE,
                                                                                                           None, None):
        # a row by a matrix whose columns are contiguous
        return renamed(_plan(_swapped(p), epilogue, threads), {"a": "b", "b": "a"})
    if a_from is None and _wants_dots(p, kind) and pick("dots", (True, False) if few else (True,)):
        return dot_plan(p, unpaired(kind) if b_from else kind, epilogue, threads, computed=b_from)
    if computed == (None, None) and p.uses < OFTEN:
        found = unpacked.plan(p, kind, epilogue, threads)
        if found is not None:
            return found
    kind = multiplied(p, kind)
    if computed == (None, None) and unpacked.wants_tiled_stream(p, kind) and pick("B streamed", (True, False)):
        return unpacked.tiled_stream_plan(p, epilogue, threads)
    if threads > 1 and _wants_parts(p):
        return parts_plan(p, kind, epilogue, threads, computed)
    return blocked_plan(p, kind, epilogue, threads, computed=computed)


def _swapped(p):
    """The matmul of the transposed operands in reverse order, whose result is the transposed one."""
    a, b, c = ((*strides[:-2], strides[-1], strides[-2]) for strides in (p.a, p.b, p.c))
    return replace(p, rows=p.columns, columns=p.rows, a=b, b=a, c=c)


def multiplied(p, kind):
    """The Numbers of a blocked matmul: those of AMX tiles if the CPU has them and the matmul fills a good part of
    them."""
    tiles = tile_numbers(p.dtype, p.b_dtype)
    return pick("numbers", (tiles, kind)) if tiles and min(
        p.rows, p.columns) > 2 and p.depth >= 2 * kind.per_word else kind


def _wants_parts(p):
    """True for a long k and a small output: k gives more parallelism than the output."""
    return not p.batch and p.sums[0] == 1 and p.rows * p.columns <= 1 << 15 and p.depth >= 32 * max(p.rows, p.columns,
                                                                                                    64)


def parts_plan(p, kind, epilogue, threads, computed=(None, None)):
    """The plan of a split-K matmul: partial matmuls as a batch, then their sum."""
    parts = threads
    depth, rest = divmod(p.depth, parts)
    accumulator = next(name for name, element in ELEMENTS.items() if element is kind.accumulator)
    matrix = p.rows * p.columns
    a_parts = tuple((depth * part[-2], *part) for part in p.a_parts)
    b_parts = tuple((depth * part[-3], *part) for part in p.b_parts)
    batched = replace(p, batch=(parts,), depth=depth, a=(depth * p.a[-1], *p.a), b=(depth * p.b[-2], *p.b),
                      c=(matrix, p.columns, 1), out_dtype=accumulator, a_parts=a_parts, b_parts=b_parts)
    last = replace(p, depth=rest, c=(p.columns, 1), out_dtype=accumulator)
    size, out = kind.element.bytes, ELEMENTS[p.out_dtype]
    part_bytes = matrix * kind.accumulator.bytes
    starts = {"a": ("pointer", "a", parts * depth * p.a[-1] * size),
              "b": ("pointer", "b", parts * depth * p.b[-2] * size),
              "c": ("temp", "parts", parts * part_bytes)}
    for operand, given, strides in zip("ab", computed, (a_parts, b_parts)):
        starts.update((f"{operand}{k}", ("pointer", f"{operand}{k}", parts * part[0] * given.parts[k].itemsize))
                      for k, part in enumerate(strides))
    steps, temporaries = [], {"parts": (parts + 1) * part_bytes}
    for problem, places in ((batched, {"c": ("temp", "parts", 0)}), (last, starts)):
        if problem.depth:
            plan = blocked_plan(problem, kind, NO_EPILOGUE, threads, computed=computed)
            # both parts have temporaries of one name
            steps += [replace(moved(step, places), fills="") for step in plan.steps]
            temporaries.update({name: max(bytes_, temporaries.get(name, 0))
                                for name, bytes_ in plan.temporaries.items()})
    slots = {"parts": parts + (rest > 0), "part_bytes": part_bytes, "columns": p.columns, "c_row": p.c[-2] * out.bytes}
    sources = {"partial": ("temp", "parts", 0), "c": ("pointer", "c", 0)}
    kernel = combine.combine_kernel(kind, out, epilogue)
    grain = max(1, 16384 // p.columns)
    steps.append(KernelCall(kernel, p.rows, grain, written_slots(combine.SLOTS, slots, sources) + epilogue.slots))
    return Contraction(tuple(steps), temporaries)


def rounding_step(kind, out, rows, columns, source, target):
    """The kernel call that converts a matrix of accumulators to the output dtype; `source`, `target` are slots."""
    slots = {"parts": 1, "part_bytes": 0, "columns": columns, "c_row": columns * out.bytes}
    kernel = combine.combine_kernel(kind, out, NO_EPILOGUE)
    return KernelCall(kernel, rows, max(1, 16384 // columns),
                written_slots(combine.SLOTS, slots, {"partial": source, "c": target}))


def _wants_dots(p, kind):
    """True for few rows or columns with both operands along k: memory-bound, and packing would double the traffic."""
    if p.uses >= OFTEN and p.rows > FEW:
        return False
    along = (p.a[-1] == 1 and p.b[-2] == 1 and all(part[-3] in (0, 1) for part in p.b_parts)
             and (p.sums[0] == 1 or ELEMENTS[p.out_dtype] is kind.accumulator))
    few_rows = 4 if tile_numbers(p.dtype, p.b_dtype) else 16
    return along and (p.rows <= few_rows or p.columns <= 4) and p.depth >= 2 * kind.lanes


PACKED_BYTES = 1 << 16  # of panels that are packed as a chunk of its own
OFTEN = 4  # matmuls that share an operand, from which on packing it once beats dot products of more than FEW rows


@dataclass(frozen=True)
class Choice:
    """A register tile and its blocks; `shared` packs all of B in a kernel call of its own.  A packed block of A is
    multiplied with one inner block, of columns and of depth, at a time."""

    tile_rows: int
    vectors: int
    block_rows: int
    block_columns: int
    block_depth: int
    shared: bool
    inner_columns: int
    inner_depth: int


def choose(p, kind, threads, gathered=False):
    """Return the Choice for a normalized Matmul; `gathered`: B is read through a table and cannot be packed before."""
    if work(p) < ALONE:
        threads = 1
    tile_rows, vectors = register_tile(p.rows, p.columns, kind, p.uses > 1, not kind.tiles)
    width = vectors * kind.lanes
    word = kind.word.bytes
    batches = product(p.batch)
    words = -(-p.depth // kind.per_word) or 1
    second = targeted().second_cache
    if kind.tiles:
        # short sums stay in tiles
        limit = pick("words along k", (512 if words <= 512 else 320, 128, 256))
        block_words, inner_words = _parts(words, 1024, kind.lanes), _parts(words, limit, kind.lanes)
        block_rows = max(tile_rows, min(pick("rows of a block", (512, 256), True),
                                        (second >> 1) // (block_words * word)) // tile_rows * tile_rows)
        if p.rows <= 2 * tile_rows:  # panels serve too few tiles to stay in a cache for
            inner_words = block_words
        inner_columns = max(1, pick("columns of an inner block", (256, 512, 1024) if words <= 192
                                    else (512, 256, 1024), True) // width) * width
    else:
        block_words = _parts(words, pick("words along k", (min(768, second >> 11), 256, 1024)), kind.lanes)
        if ELEMENTS[p.out_dtype] is not kind.accumulator and block_words < words <= 2048:
            block_words = round_up(words, kind.lanes)
        block_rows = max(tile_rows, _block_rows(p.rows, block_words * word) // tile_rows * tile_rows)
        inner_words, inner_columns = block_words, 1 << 40
    row_blocks = -(-p.rows // block_rows)
    again = p.kept or row_blocks * (batches if _same_b(p) else 1) * p.uses > 1
    shared = p.sums[0] == 1 and not gathered and pick("B packed once", (again, not again), True)
    wanted = 1 if threads == 1 else pick("blocks a thread", (4, 2, 8, 1), True) * threads
    column_panels = -(-p.columns // width)
    if shared:
        # more, smaller row blocks as long as B is not read again too often
        while row_blocks * batches < wanted and block_rows > 6 * tile_rows:
            block_rows = round_up(block_rows // 2, tile_rows)
            row_blocks = -(-p.rows // block_rows)
    block_rows = round_up(-(-p.rows // row_blocks), tile_rows)
    column_blocks = min(column_panels, max(1, -(-wanted // (row_blocks * batches))))
    if kind.tiles and block_words < words:  # partial sums of all columns are kept
        column_blocks = max(column_blocks, -(-p.columns // 2048))
    units = row_blocks * column_blocks * batches
    if units < 4 * threads and units % threads and not shared:
        # better to pack B several times than to leave a thread idle
        row_blocks = min(-(-p.rows // tile_rows), row_blocks * max(2, -(-threads // units)))
        block_rows = round_up(-(-p.rows // row_blocks), tile_rows)
    block_columns = -(-column_panels // column_blocks) * width
    return Choice(tile_rows, vectors, block_rows, block_columns, block_words * kind.per_word, shared,
                  min(inner_columns, block_columns), inner_words * kind.per_word)


def _parts(count, most, multiple):
    """Divide a count into equal parts of at most `most`, a multiple of `multiple`; return their size."""
    return round_up(-(-count // -(-count // most)), multiple)


def _block_rows(rows, row_bytes):
    """Rows of A, of `row_bytes` bytes each, that are packed at a time."""
    own, second = habits(), targeted().second_cache
    if not own.block_rows:
        # in the L2 cache: three eighths of it, or all but 1 MB
        return min(448 * second >> 20, max(3 * second >> 3, second - (1 << 20)) // row_bytes)
    whole = int(own.whole * second) // row_bytes
    return rows + 16 if rows <= whole else pick("rows of a block",
                                                (own.block_rows, 2 * own.block_rows, 4 * own.block_rows), True)


def _same_b(p):
    """True if all batches share one B."""
    return not any(p.b[:-2]) and not any(any(part[:-3]) for part in p.b_parts)


def packings(problem):
    """Return the number of times that each element of A and of B is packed.

    Example:
        >>> a, b = packings(Matmul((), 64, 64, 64, (64, 1), (64, 1), (64, 1)))
        >>> a  # of B it depends on the threads
        1
    """
    p = _normalised(problem)
    kind = numbers(p.dtype, p.b_dtype)
    if _wants_dots(p, kind):
        tile_rows, tile_columns = _dot_tile(p.rows, p.columns, kind.lanes)
        return -(-p.columns // tile_columns), -(-p.rows // tile_rows)
    kind = multiplied(p, kind)
    choice = choose(p, kind, pool.get_num_threads())
    shared_by_all = product(p.batch) if _same_b(p) else 1
    return -(-p.columns // choice.block_columns), 1 if choice.shared else -(
        -p.rows // choice.block_rows) * shared_by_all


def blocked_plan(p, kind, epilogue, threads, b_offsets=None, computed=(None, None)):
    """The plan of a blocked matmul; with `b_offsets` (bytes, one a column), B's columns are contiguous along k at these
    offsets.  `computed`: the Prologues of A and B."""
    choice = choose(p, kind, threads, b_offsets is not None)
    out = ELEMENTS[p.out_dtype]
    size, word = kind.element.bytes, kind.word.bytes
    width = choice.vectors * kind.lanes
    batches = product(p.batch)
    a_layout = layout(p.a[-2], p.a[-1], p.rows, p.depth)
    b_layout = layout(p.b[-1], p.b[-2], p.columns, p.depth) if b_offsets is None else TABLE
    row_blocks, column_blocks = -(-p.rows // choice.block_rows), -(-p.columns // choice.block_columns)
    # partial sums of an inner block are kept for its next part along k; if A is packed in parts, those of all columns
    partial_columns = choice.inner_columns if p.depth <= choice.block_depth and p.sums[0] == 1 else choice.block_columns
    slots = {
        "rows": p.rows, "columns": p.columns, "depth": p.depth,
        "a_row": p.a[-2] * size, "a_k": p.a[-1] * size, "b_k": p.b[-2] * size, "b_column": p.b[-1] * size,
        "c_row": p.c[-2] * out.bytes, "block_rows": choice.block_rows, "block_columns": choice.block_columns,
        "block_depth": choice.block_depth, "inner_depth": choice.inner_depth, "inner_columns": choice.inner_columns,
        "partial_columns": partial_columns,
        "row_blocks": row_blocks, "column_blocks": column_blocks,
        "sums": p.sums[0], "a_sum": p.sums[1] * size, "b_sum": p.sums[2] * size,
        "b_offsets": 0 if b_offsets is None else Table(b_offsets),
        **batch_slots(p, {"a": size, "b": size, "c": out.bytes}),
    }
    layouts = _layouts(p, computed)
    places = _place_parts(p, computed, slots)
    depth_words = round_up(-(-choice.block_depth // kind.per_word), kind.chunk) + kind.lanes
    a_bytes = round_up(round_up(choice.block_rows, choice.tile_rows) * depth_words * word + 64, 4096)
    panel_bytes = round_up(depth_words * width * word + 64, 4096)
    partial_bytes = (0 if out is kind.accumulator and not kind.tiles else choice.block_rows * partial_columns
                     * kind.accumulator.bytes)
    scratch = a_bytes + panel_bytes + round_up(partial_bytes, 4096)
    slots.update(scratch_bytes=scratch, panel_at=a_bytes, partial_at=a_bytes + panel_bytes, panel_bytes=panel_bytes)
    temporaries = {"scratch": scratch * threads}
    steps = []
    if choice.shared:
        steps.append(_pack_step(p, kind, b_layout, choice, slots, temporaries, layouts[1], places))
        b_layout, layouts = PACKED, (layouts[0], None)
    fetchable = b_layout == PACKED or kind.per_word == 1 and layouts[1] is None and b_layout in (ACROSS, ALONG)
    ahead = fetchable and not kind.tiles and pick("ahead", (habits().ahead, not habits().ahead), True)
    lying = _lies_well(p, kind, choice, a_layout, computed[0]) and pick("A where it lies", (True, False), True)
    kernel = blocked.block_kernel(kind, out, (a_layout, b_layout), layouts, choice.tile_rows, choice.vectors, epilogue,
                                  ahead, lying)
    sources = {"a": ("pointer", "a", 0), "b": ("pointer", "b", 0)} | places | {"c": ("pointer", "c", 0),
                                                                               "scratch": ("temp", "scratch", 0)}
    if choice.shared:
        sources["b"] = ("temp", "packed", 0)
    names = blocked.SLOTS + blocked.part_slots("a", layouts[0])[0] + blocked.part_slots("b", layouts[1])[0]
    units = batches * row_blocks * column_blocks
    steps.append(KernelCall(kernel, units, grain(p, units, threads),
                            written_slots(names, slots, sources) + epilogue.slots))
    return Contraction(tuple(steps), temporaries, () if b_offsets is None else (b_offsets,))


SETS, CROWD = 64, 16  # sets of the L1 cache; lines of a tile of A in one set above which packing is cheaper


def _lies_well(p, kind, choice, a_layout, computed):
    """True if AMX tiles can read A unpacked, in full steps along k, without crowding lines of a tile into few sets of
    the L1 cache."""
    run = kind.chunk * kind.per_word
    if not kind.tiles or computed is not None or a_layout != ALONG or p.depth % run or p.rows < choice.tile_rows:
        return False
    size = kind.element.bytes
    lines = {(row * p.a[-2] + k) * size // 64
             for row in range(choice.tile_rows) for k in range(0, min(choice.inner_depth, p.depth), run)}
    filled = [0] * SETS
    for line in lines:
        filled[line % SETS] += 1
    return max(filled) <= CROWD


def _layouts(p, computed):
    """The layouts of the parts of A and B: (a PrologueLayout or None, a PrologueLayout or None)."""
    found = []
    for prologue, parts, lane in ((computed[0], p.a_parts, -3), (computed[1], p.b_parts, -2)):
        k = -5 - lane
        found.append(prologue and PrologueLayout(prologue, tuple((distance(part[lane]), distance(part[k]))
                                                                 for part in parts)))
    return tuple(found)


def _place_parts(p, computed, slots):
    """Add the slots of the parts of computed operands; return the pointers to these, or none for plain operands."""
    places = {}
    for operand, prologue, parts, lane in (("a", computed[0], p.a_parts, -3), ("b", computed[1], p.b_parts, -2)):
        if prologue is None:
            continue
        places[operand] = ("const", 0)
        for n, (part, dtype) in enumerate(zip(parts, prologue.parts)):
            name, size, batch = f"{operand}{n}", dtype.itemsize, (0,) * (BATCH_DIMS - len(p.batch)) + part[:-3]
            places[name] = ("pointer", name, 0)
            slots.update({f"{name}_lane": part[lane] * size, f"{name}_k": part[-5 - lane] * size,
                          f"{name}_sum": part[-1] * size})
            slots.update({f"{name}_batch_{dim}": stride * size for dim, stride in enumerate(batch)})
    return places


def dot_plan(p, kind, epilogue, threads, b_offsets=None, computed=None):
    """The plan of a matmul by dot products; with `b_offsets` (bytes, one a column), B's columns are at these offsets.
    `computed`: the Prologue of B.

    Sums over several matmuls or blocks along k are kept in C, which then needs the accumulator's type.
    """
    out, size = ELEMENTS[p.out_dtype], kind.element.bytes
    tile_rows, tile_columns = _dot_tile(p.rows, p.columns, kind.lanes)
    batches = product(p.batch)
    wanted = 1 if threads == 1 else max(1, 8 * threads // batches)
    if p.rows >= p.columns and b_offsets is None:
        row_blocks, column_blocks = min(wanted, -(-p.rows // tile_rows)), 1
    else:
        row_blocks, column_blocks = 1, min(wanted, -(-p.columns // tile_columns))
    block_rows = round_up(-(-p.rows // row_blocks), tile_rows)
    block_columns = round_up(-(-p.columns // column_blocks), tile_columns)
    row_blocks, column_blocks = -(-p.rows // block_rows), -(-p.columns // block_columns)
    # blocks of pixels keep a tile's rows in the L1 cache; long rows that are read once need no blocks
    block_depth = max(p.depth, 1) if b_offsets is None else 64 * kind.lanes
    slots = {
        "rows": p.rows, "columns": p.columns, "depth": p.depth, "a_row": p.a[-2] * size, "b_column": p.b[-1] * size,
        "c_row": p.c[-2] * out.bytes, "block_rows": block_rows, "block_columns": block_columns,
        "block_depth": block_depth,
        "row_blocks": row_blocks, "column_blocks": column_blocks,
        "sums": p.sums[0], "a_sum": p.sums[1] * size, "b_sum": p.sums[2] * size,
        "b_offsets": 0 if b_offsets is None else Table(b_offsets),
        **batch_slots(p, {"a": size, "b": size, "c": out.bytes}),
    }
    layout = _layouts(p, (None, computed))[1]
    kernel = dot.dot_kernel(kind, out, tile_rows, tile_columns, b_offsets is not None, epilogue, layout)
    units = batches * row_blocks * column_blocks
    sources = {name: ("pointer", name, 0) for name in "abc"} | _place_parts(p, (None, computed), slots)
    names = dot.SLOTS + blocked.part_slots("b", layout)[0]
    step = KernelCall(kernel, units, grain(p, units, threads), written_slots(names, slots, sources) + epilogue.slots)
    return Contraction((step,), {}, () if b_offsets is None else (b_offsets,))


def _dot_tile(rows, columns, lanes):
    """Rows and columns of a tile of dot products."""
    rows, columns = guess(rows), guess(columns)
    if targeted().registers == 16:
        options = ((1, 8), (8, 1), (2, 4), (4, 2))
    else:
        options = ((1, 8), (8, 1), (2, 8), (8, 2), (4, 6), (6, 4))
    # a row of a tile is stored as one vector
    options = [option for option in options if option[1] <= lanes]

    def cost(option):
        r, c = option
        return -(-rows // r) * -(-columns // c) * max(r * c / 2, (r + c) / 2 + 1)

    return min(options, key=cost)


def _pack_step(p, kind, b_layout, choice, slots, temporaries, computed, places):
    """The kernel call that packs B once for all row blocks; points the B slots at the packed copy."""
    width = choice.vectors * kind.lanes
    panels = -(-p.columns // width)
    panel_bytes = (round_up(-(-p.depth // kind.per_word), kind.lanes) * width + 16) * kind.word.bytes
    shared_by_all = _same_b(p)
    batches = 1 if shared_by_all else product(p.batch)
    own = dict(slots, panels=panels, panel_bytes=panel_bytes)
    kernel = blocked.pack_kernel(kind, b_layout, choice.vectors, computed)
    sources = {"b": ("pointer", "b", 0)} | places | {"packed": ("temp", "packed", 0)}
    names = blocked.PACK_SLOTS + blocked.part_slots("b", computed)[0]
    chunk = max(1, PACKED_BYTES // panel_bytes)
    step = KernelCall(kernel, batches * panels, chunk, written_slots(names, own, sources),
                fills="packed")
    temporaries["packed"] = batches * panels * panel_bytes + 4096
    matrix = 0 if shared_by_all else panels * panel_bytes
    slots.update(panel_bytes=panel_bytes, b_batch_2=matrix, b_batch_1=matrix * slots["batch_2"],
                 b_batch_0=matrix * slots["batch_2"] * slots["batch_1"])
    return step
