"""Factors of matrices, and systems of equations: plans of elimination, substitution and matmuls, block by block.

Operands are batches of matrices in rows; "flag" is the error flag of the program.
"""

from dataclasses import dataclass, replace

from ..llvm import pool
from ..llvm.features import remembered, targeted
from ..llvm.scalars import STORED
from . import columns, eigen, elimination, exchange, reflection, singular, substitution
from .contraction import NO_EPILOGUE
from .sequence import Part, Sequence

MOST_PAIRED = 16  # most vectors of columns of complex matrices, which are eliminated in one block
WHOLE = 4    # most vectors of columns that are eliminated in one block
PANEL = 2    # vectors of columns of a panel of larger matrices
BLOCK = 128  # rows of a triangle that are solved in one block


@dataclass(frozen=True)
class Factors:
    """Factors of `count` matrices [rows, columns]: LU with pivoting, or Cholesky (of a lower triangle alone).
    `failure`: the code that is reported for a singular matrix; 0: none. `parts`: 2 if elements are complex, and `dtype`
    is that of their parts; the same for triangles and systems."""

    count: int
    rows: int
    columns: int
    dtype: str
    pivoting: bool
    failure: int = 0
    parts: int = 1


@dataclass(frozen=True)
class Triangle:
    """x with a x = b, a [count, size, size] triangular with these strides in elements, b [count, size, columns] in
    rows."""

    count: int
    size: int
    columns: int
    dtype: str
    a: tuple
    upper: bool
    unit: bool
    parts: int = 1


@dataclass(frozen=True)
class System:
    """x with a x = b for general a; `columns` 0: the inverse of a."""

    count: int
    size: int
    columns: int
    dtype: str
    failure: int = 0
    parts: int = 1


@dataclass(frozen=True)
class Orthogonal:
    """QR factors of `count` matrices [rows, columns]; `mode`: "reduced", "complete", "r" (R alone) or "raw"
    (reflections)."""

    count: int
    rows: int
    columns: int
    dtype: str
    mode: str


@dataclass(frozen=True)
class Eigen:
    """Eigenvalues of `count` symmetric matrices, from one triangle of each, and optionally eigenvectors; `failure` as
    of Factors."""

    count: int
    size: int
    dtype: str
    lower: bool
    vectors: bool
    failure: int


@dataclass(frozen=True)
class Singular:
    """Singular values of `count` matrices [rows, columns], and optionally as many vectors; `failure` as of Factors."""

    count: int
    rows: int
    columns: int
    dtype: str
    vectors: bool
    failure: int


@dataclass(frozen=True)
class Order:
    """The permutation of `size` rows by `steps` row interchanges, `count` times."""

    count: int
    size: int
    steps: int
    failure: int


def plan_factors(problem):
    """Plan LU or Cholesky factors; operands are "a", "packed", "info" [count] int32, "flag" and, with pivoting,
    "pivots" [count, least of both] int32."""
    return _factors(problem, pool.get_num_threads())


def plan_triangle(problem):
    """Plan a triangular system; operands are "a", "b" and "x"."""
    return _triangle(problem, pool.get_num_threads())


def plan_system(problem):
    """Plan the solution of a system; operands are "a", "b" (not for an inverse), "x", "info" [count] int32 and
    "flag"."""
    return _system(problem, pool.get_num_threads())


@remembered(256)
def plan_order(problem):
    """Plan a permutation of rows; operands are "pivots", "order" and "flag"."""
    made = Sequence(problem.count, "int64", 8)
    made.kernel(exchange.order_kernel(), problem.count, exchange.ORDER_SLOTS,
                {"rows": problem.size, "count": problem.steps, "failure": problem.failure},
                {name: ("pointer", name, 0) for name in ("pivots", "order", "flag")}, max(1, 4096 // problem.size))
    return made.contraction()


def _sequence(p):
    return Sequence(p.count, p.dtype, STORED[p.dtype].bytes)


@remembered(256)
def _factors(p, threads):
    made = _sequence(p)
    _eliminate(made, p, ("pointer", "packed", 0), ("pointer", "pivots", 0), threads)
    return made.contraction()


@remembered(256)
def _triangle(p, threads):
    made = _sequence(p)
    whole = Part("pointer", "a", 0, *(p.parts * stride for stride in p.a))
    columns = p.parts * p.columns
    x = Part("pointer", "x", 0, p.size * columns, columns)
    _copy(made, ("pointer", "b", 0), x.slot(made.size), p.size, columns, ("const", 0))
    _substitute(made, whole, x, p.size, columns, p.upper, p.unit, threads, p.parts)
    return made.contraction()


@remembered(256)
def _system(p, threads):
    made = _sequence(p)
    n, columns = p.size, p.parts * (p.columns or p.size)
    row = p.parts * n
    packed = made.temporary("packed", p.count * n * row * made.size)
    pivots = made.temporary("pivots", p.count * n * 4)
    _eliminate(made, Factors(p.count, n, n, p.dtype, True, p.failure, p.parts), packed, pivots, threads)
    x = Part("pointer", "x", 0, n * columns, columns)
    _copy(made, ("pointer", "b", 0) if p.columns else None, x.slot(made.size), n, columns, pivots, n, step=p.parts)
    factors = Part(*packed[:2], 0, n * row, row, p.parts)
    _substitute(made, factors, x, n, columns, False, True, threads, p.parts)
    _substitute(made, factors, x, n, columns, True, False, threads, p.parts)
    return made.contraction()


def _grain(work):
    """Grain size for work units of `work` elements."""
    return max(1, 4096 // max(1, work))


def _copy(made, source, target, rows, columns, pivots, steps=0, ones=None, step=1):
    """Copy matrices with rows interchanged; without a source the identity, or its first `ones` rows and zeros."""
    row = columns * made.size
    numbers = {"rows": rows if ones is None else ones, "columns": columns, "count": steps, "row": row,
               "matrix": rows * row, "pivot_bytes": steps * 4}
    sources = {"source": source or ("const", 0), "target": target, "pivots": pivots}
    made.kernel(exchange.exchange_kernel(made.dtype, source is None, step), made.count, exchange.SLOTS, numbers,
                sources, _grain(rows * columns))


def _eliminate(made, p, packed, pivots, threads):
    """Factor "a" into `packed`: all columns at once, or block by block."""
    m, n, least = p.rows, p.columns, min(p.rows, p.columns)
    lanes = targeted().lanes(made.size)
    vectors = -(-n * p.parts // lanes)
    if vectors <= WHOLE or p.parts > 1:
        vectors = 1 << (vectors - 1).bit_length()
        _columns(made, p, ("pointer", "a", 0), packed, pivots, 0, n, vectors, threads)
        return
    whole = Part(*packed[:2], 0, m * n, n)
    _copy(made, ("pointer", "a", 0), packed, m, n, ("const", 0))
    width = PANEL * lanes
    for first in range(0, least, width):
        count = min(width, least - first)
        end = first + count
        here = whole.moved(first, first)
        if not p.pivoting and first:  # update from the columns before
            left = whole.moved(first, 0)
            made.product(here, left, left.turned, m - first, count, first)
        _columns(made, p, packed, packed, pivots, first, count, PANEL, threads)
        if p.pivoting and end < n:
            _substitute(made, here, whole.moved(first, end), count, n - end, False, True, threads)
            made.product(whole.moved(end, end), whole.moved(end, first), whole.moved(first, end), m - end, n - end,
                         count)


def _columns(made, p, source, target, pivots, first, width, vectors, threads):
    """Eliminate a block of columns."""
    steps = min(width, p.rows - first)
    room = columns.scratch_bytes(p.rows, vectors, targeted().lanes(made.size), made.size)
    scratch = made.temporary("columns", room * threads)
    numbers = {"rows": p.rows, "columns": p.columns, "first": first, "width": width, "count": steps,
               "row": p.columns * p.parts * made.size,
               "matrix": p.rows * p.columns * p.parts * made.size, "pivot_bytes": min(p.rows, p.columns) * 4,
               "scratch_bytes": room, "failure": p.failure}
    sources = {"source": source, "target": target, "pivots": pivots if p.pivoting else ("const", 0),
               "info": ("pointer", "info", 0),
               "flag": ("pointer", "flag", 0), "scratch": scratch}
    made.kernel(elimination.elimination_kernel(made.dtype, vectors, p.pivoting, p.parts > 1), made.count,
                elimination.SLOTS, numbers, sources, _grain(p.rows * width * steps // 16))


def _substitute(made, a, x, size, columns, upper, unit, threads, parts=1):
    """Compute x = a^-1 x in place, some rows of the triangle at a time."""
    lanes = targeted().lanes(made.size)
    vectors = min(4, -(-columns // lanes))
    vectors = 4 if vectors == 3 else vectors
    while vectors > 1 and made.count * -(-columns // (vectors * lanes)) < threads:
        vectors //= 2
    blocks = -(-columns // (vectors * lanes))
    kernel = substitution.substitution_kernel(made.dtype, vectors, unit, parts > 1)
    starts = range(0, size, BLOCK)
    for first in reversed(starts) if upper else starts:
        end = min(first + BLOCK, size)
        corner = end - 1 if upper else first  # start of substitution
        sign = -1 if upper else 1
        own, rows = a.moved(corner, corner), x.moved(corner, 0)
        numbers = {"size": end - first, "columns": columns, "blocks": blocks, "a_matrix": a.matrix * made.size,
                   "a_row": sign * a.row * made.size,
                   "a_column": sign * a.column * made.size, "x_matrix": x.matrix * made.size,
                   "x_row": sign * x.row * made.size}
        made.kernel(kernel, made.count * blocks, substitution.SLOTS, numbers,
                    {"a": own.slot(made.size), "x": rows.slot(made.size)}, _grain(size * size * vectors))
        low, high = (0, first) if upper else (end, size)
        # complex ones have one block
        made.product(x.moved(low, 0), a.moved(low, first), x.moved(first, 0), high - low, columns, end - first)


# --- orthogonal factors -----------------------------------------------------------------------------------------------
def plan_orthogonal(problem):
    """Plan QR factors; operands are "a", "q" and "r" (reduced, complete), "r" alone, or "packed" and "scales" (as
    LAPACK has them)."""
    return _orthogonal(problem, pool.get_num_threads())


@remembered(256)
def _orthogonal(p, threads):
    made = _sequence(p)
    m, n, least = p.rows, p.columns, min(p.rows, p.columns)
    lanes = targeted().lanes(made.size)
    raw = p.mode == "raw"
    packed = ("pointer", "packed", 0) if raw else made.temporary("packed", p.count * m * n * made.size)
    scales = ("pointer", "scales", 0) if raw else made.temporary("scales", p.count * least * made.size)
    vectors = -(-n // lanes)
    vectors = 1 << (vectors - 1).bit_length() if vectors <= WHOLE else PANEL
    reflections = _Reflections(made, p, packed, scales, vectors, threads)
    if n <= vectors * lanes:
        reflections.columns(("pointer", "a", 0), 0, n)
    else:
        _copy(made, ("pointer", "a", 0), packed, m, n, ("const", 0))
        for first in range(0, least, reflections.width):
            end = min(first + reflections.width, least)
            reflections.columns(packed, first, end - first)
            reflections.turn(reflections.whole.moved(first, end), first, end, n - end, False)
    if not raw:
        _upper(made, packed, p, m if p.mode == "complete" else least)
    if p.mode in ("reduced", "complete"):
        reflections.form(m if p.mode == "complete" else least)
    return made.contraction()


def _upper(made, packed, p, rows):
    row = p.columns * made.size
    numbers = {"rows": rows, "columns": p.columns, "source_matrix": p.rows * row, "target_matrix": rows * row,
               "row": row}
    made.kernel(reflection.upper_kernel(made.dtype), made.count, reflection.UPPER_SLOTS, numbers,
                {"source": packed, "target": ("pointer", "r", 0)}, _grain(p.rows * p.columns))


class _Reflections:
    """Kernel calls that compute Householder reflectors of columns, V and the transposes of T, and apply them to other
    columns."""

    def __init__(self, made, p, packed, scales, vectors, threads):
        self.made, self.p, self.packed, self.scales, self.vectors, self.threads = (made, p, packed, scales, vectors,
                                                                                   threads)
        self.least, self.width = min(p.rows, p.columns), vectors * targeted().lanes(made.size)
        self.whole = Part(*packed[:2], 0, p.rows * p.columns, p.columns)
        found = made.temporary("vectors", p.count * p.rows * self.least * made.size)
        self.found = Part(*found[:2], 0, p.rows * self.least, self.least)
        self.panels = -(-self.least // self.width)
        self.square = self.width * self.width
        joined = made.temporary("joined", p.count * self.panels * self.square * made.size)
        self.joined = Part(*joined[:2], 0, self.panels * self.square, self.width)

    def columns(self, source, first, width):
        """Compute the reflectors of some columns."""
        made, p, size = self.made, self.p, self.made.size
        steps = min(width, p.rows - first)
        along = columns.scratch_bytes(p.rows, self.vectors, targeted().lanes(size), size)
        room = along + 64 + self.width * size
        scratch = made.temporary("columns", room * self.threads)
        numbers = {"rows": p.rows, "first": first, "width": width, "count": steps, "row": p.columns * size,
                   "matrix": self.whole.matrix * size,
                   "vectors_row": self.least * size, "vectors_matrix": self.found.matrix * size,
                   "scales_bytes": self.least * size,
                   "joined_bytes": self.joined.matrix * size, "along_at": along, "scratch_bytes": room}
        sources = {"source": source, "target": self.packed, "vectors": self.found.slot(size), "scales": self.scales,
                   "joined": self.joined_at(first).slot(size), "scratch": scratch}
        made.kernel(reflection.reflection_kernel(made.dtype, self.vectors), made.count, reflection.SLOTS, numbers,
                    sources, _grain(p.rows * width * steps // 16))

    def joined_at(self, first):
        """T's transpose for the columns from index `first` on."""
        return replace(self.joined, at=first // self.width * self.square)

    def turn(self, x, first, end, columns, forth, untouched=False):
        """Compute x = H_first ... H_end x, or with the transpose of that, x being rows from `first` on; `untouched`: x
        is the identity."""
        if not columns:
            return
        made, count, height = self.made, end - first, self.p.rows - first
        v = self.found.moved(first, first)
        room = made.count * self.width * columns * made.size
        along, joined = (Part(*made.temporary(name, room)[:2], 0, count * columns, columns)
                         for name in ("along", "along joined"))
        if untouched:
            along = v.turned
        else:
            made.product(along, v.turned, x, count, columns, height, NO_EPILOGUE)
        t = self.joined_at(first)
        made.product(joined, t.turned if forth else t, along, count, columns, count, NO_EPILOGUE)
        made.product(x, v, joined, height, columns, count)

    def form(self, columns):
        """Compute the first columns of Q: apply the reflectors to the identity, from the last to the first."""
        made, p = self.made, self.p
        q = Part("pointer", "q", 0, p.rows * columns, columns)
        _copy(made, None, q.slot(made.size), p.rows, columns, ("const", 0), ones=columns)
        starts = range(0, self.least, self.width)
        for first in reversed(starts):
            end = min(first + self.width, self.least)
            self.turn(q.moved(first, first), first, end, columns - first, True, first == starts[-1])


# --- eigenvalues ------------------------------------------------------------------------------------------------------
def plan_eigen(problem):
    """Plan eigenvalues of symmetric matrices, ascending; operands are "a", "values", "vectors" (optional) and
    "flag"."""
    return _eigen(problem, pool.get_num_threads())


@remembered(256)
def _eigen(p, threads):
    made, n = _sequence(p), p.size
    lanes = targeted().lanes(made.size)
    group = min(4, 1 << (-(-n // lanes) - 1).bit_length())
    wide = -(-n // (group * lanes)) * group * lanes
    matrix = n * wide * made.size
    sizes = {"reflected": matrix, "turned": matrix, "along": wide * made.size, "scales": n * made.size,
             "diagonal": 8 * (n + 1), "beside": 8 * (n + 1), "order": 8 * n + 64}
    numbers, at = {"size": n, "wide": wide, "lower": int(p.lower), "failure": p.failure}, matrix
    for name, nbytes in sizes.items():
        numbers[f"{name}_at"] = at
        at += -(-nbytes // 64) * 64
    numbers["scratch_bytes"] = at
    sources = {"scratch": made.temporary("scratch", at * threads), "vectors": ("pointer", "vectors", 0) if p.vectors
               else ("const", 0),
               **{"source" if name == "a" else name: ("pointer", name, 0) for name in ("a", "values", "flag")}}
    made.kernel(eigen.eigen_kernel(p.dtype, group, p.vectors), p.count, eigen.SLOTS, numbers, sources)
    return made.contraction()


# --- singular values --------------------------------------------------------------------------------------------------
def plan_singular(problem):
    """Plan singular values, descending; operands are "a", "values" and "flag", and optionally "u" and "vh"."""
    return _singular(problem, pool.get_num_threads())


@remembered(256)
def _singular(p, threads):
    made = _sequence(p)
    lanes, tall = targeted().lanes(made.size), p.rows >= p.columns
    count, length = (p.columns, p.rows) if tall else (p.rows, p.columns)
    group = min(4, 1 << (-(-count // lanes) - 1).bit_length())
    wide, turned_wide = (-(-n // (group * lanes)) * group * lanes for n in (length, count))
    numbers = {"rows": p.rows, "columns": p.columns, "count": count, "length": length, "column_step": 1 if tall
               else p.columns, "row_step": p.columns if tall else 1,
               "wide": wide, "turned_wide": turned_wide, "failure": p.failure}
    at = count * wide * made.size
    for name, nbytes in {"turned": count * turned_wide * made.size, "sizes": 8 * count,
                         "order": 8 * count + 64}.items():
        numbers[f"{name}_at"] = at
        at += -(-nbytes // 64) * 64
    numbers["scratch_bytes"] = at
    sources = {"scratch": made.temporary("scratch", at * threads),
               **{"source" if name == "a" else name: ("pointer", name, 0) for name in ("a", "values", "flag")},
               **{name: ("pointer", name, 0) if p.vectors else ("const", 0) for name in ("u", "vh")}}
    made.kernel(singular.singular_kernel(p.dtype, group, p.vectors), p.count, singular.SLOTS, numbers, sources)
    return made.contraction()
