"""Factors of matrices, and systems of equations: plans of elimination, substitution and products, block by block.

Operands are batches of matrices in rows; "flag" is the error flag of the program.
"""

import functools
from dataclasses import dataclass

from ..llvm import pool
from ..llvm.features import host
from ..llvm.scalars import STORED
from . import elimination, exchange, substitution
from .sequence import Part, Sequence

WHOLE = 4    # vectors of columns that are eliminated in one piece
PANEL = 2    # vectors of columns of a piece of larger matrices
BLOCK = 128  # rows of a triangle that are solved in one piece


@dataclass(frozen=True)
class Factors:
    """Factors of `count` matrices [rows, columns], with pivots or (of a lower triangle alone) by square roots. `failure`: the kind that is reported for a
    matrix without an answer; 0: none."""

    count: int
    rows: int
    columns: int
    dtype: str
    pivoting: bool
    failure: int = 0


@dataclass(frozen=True)
class Triangle:
    """x with a x = b, a [count, size, size] triangular with these strides in elements, b [count, size, columns] in rows."""

    count: int
    size: int
    columns: int
    dtype: str
    a: tuple
    upper: bool
    unit: bool


@dataclass(frozen=True)
class System:
    """x with a x = b for general a; `columns` 0: the inverse of a."""

    count: int
    size: int
    columns: int
    dtype: str
    failure: int = 0


@dataclass(frozen=True)
class Order:
    """The order of `size` rows that `steps` exchanges make, `count` times."""

    count: int
    size: int
    steps: int


def plan_factors(problem):
    """Plans LU or Cholesky factors; operands are "a", "packed", "info" [count] int32, "flag" and, with pivots, "pivots" [count, least of both] int32."""
    return _factors(problem, pool.get_num_threads())


def plan_triangle(problem):
    """Plans a triangular system; operands are "a", "b" and "x"."""
    return _triangle(problem, pool.get_num_threads())


def plan_system(problem):
    """Plans the solution of a system; operands are "a", "b" (not for an inverse), "x", "info" [count] int32 and "flag"."""
    return _system(problem, pool.get_num_threads())


@functools.lru_cache(maxsize=256)
def plan_order(problem):
    """Plans an order of rows; operands are "pivots" and "order"."""
    made = Sequence(problem.count, "int64", 8)
    made.kernel(exchange.order_kernel(), problem.count, exchange.ORDER_SLOTS, {"rows": problem.size, "count": problem.steps},
                {name: ("pointer", name, 0) for name in ("pivots", "order")}, max(1, 4096 // problem.size))
    return made.contraction()


def _sequence(p):
    return Sequence(p.count, p.dtype, STORED[p.dtype].bytes)


@functools.lru_cache(maxsize=256)
def _factors(p, threads):
    made = _sequence(p)
    _eliminate(made, p, ("pointer", "packed", 0), ("pointer", "pivots", 0), threads)
    return made.contraction()


@functools.lru_cache(maxsize=256)
def _triangle(p, threads):
    made = _sequence(p)
    whole = Part("pointer", "a", 0, *p.a)
    x = Part("pointer", "x", 0, p.size * p.columns, p.columns)
    _copy(made, ("pointer", "b", 0), x.slot(made.size), p.size, p.columns, ("const", 0))
    _substitute(made, whole, x, p.size, p.columns, p.upper, p.unit, threads)
    return made.contraction()


@functools.lru_cache(maxsize=256)
def _system(p, threads):
    made = _sequence(p)
    n, columns = p.size, p.columns or p.size
    packed = made.temporary("packed", p.count * n * n * made.size)
    pivots = made.temporary("pivots", p.count * n * 4)
    _eliminate(made, Factors(p.count, n, n, p.dtype, True, p.failure), packed, pivots, threads)
    x = Part("pointer", "x", 0, n * columns, columns)
    _copy(made, ("pointer", "b", 0) if p.columns else None, x.slot(made.size), n, columns, pivots, n)
    factors = Part(*packed[:2], 0, n * n, n)
    _substitute(made, factors, x, n, columns, False, True, threads)
    _substitute(made, factors, x, n, columns, True, False, threads)
    return made.contraction()


def _grain(work):
    """How many units of so many elements a thread takes at a time."""
    return max(1, 4096 // max(1, work))


def _copy(made, source, target, rows, columns, pivots, steps=0):
    """Matrices (the identity where there is no source) with their rows exchanged."""
    row = columns * made.size
    numbers = {"rows": rows, "columns": columns, "count": steps, "row": row, "matrix": rows * row, "pivot_bytes": steps * 4}
    sources = {"source": source or ("const", 0), "target": target, "pivots": pivots}
    made.kernel(exchange.exchange_kernel(made.dtype, source is None), made.count, exchange.SLOTS, numbers, sources, _grain(rows * columns))


def _eliminate(made, p, packed, pivots, threads):
    """The factors of "a" in `packed`: in one piece, or some columns at a time."""
    m, n, least = p.rows, p.columns, min(p.rows, p.columns)
    size, lanes = made.size, host().lanes(made.size)
    vectors = -(-n // lanes)
    if vectors <= WHOLE:
        vectors = 1 << (vectors - 1).bit_length()
        _columns(made, p, ("pointer", "a", 0), packed, pivots, 0, n, vectors, threads)
        return
    whole = Part(*packed[:2], 0, m * n, n)
    _copy(made, ("pointer", "a", 0), packed, m, n, ("const", 0))
    width = PANEL * lanes
    for first in range(0, least, width):
        columns = min(width, least - first)
        end = first + columns
        here = whole.moved(first, first)
        if not p.pivoting and first:  # what the columns before make of these
            left = whole.moved(first, 0)
            made.product(here, left, left.turned, m - first, columns, first)
        _columns(made, p, packed, packed, pivots, first, columns, PANEL, threads)
        if p.pivoting and end < n:
            _substitute(made, here, whole.moved(first, end), columns, n - end, False, True, threads)
            made.product(whole.moved(end, end), whole.moved(end, first), whole.moved(first, end), m - end, n - end, columns)


def _columns(made, p, source, target, pivots, first, width, vectors, threads):
    """The elimination of some columns."""
    steps = min(width, p.rows - first)
    room = elimination.scratch_bytes(p.rows, vectors, host().lanes(made.size), made.size)
    scratch = made.temporary("columns", room * threads)
    numbers = {"rows": p.rows, "columns": p.columns, "first": first, "width": width, "count": steps, "row": p.columns * made.size,
               "matrix": p.rows * p.columns * made.size, "pivot_bytes": min(p.rows, p.columns) * 4, "scratch_bytes": room, "failure": p.failure}
    sources = {"source": source, "target": target, "pivots": pivots if p.pivoting else ("const", 0), "info": ("pointer", "info", 0),
               "flag": ("pointer", "flag", 0), "scratch": scratch}
    made.kernel(elimination.elimination_kernel(made.dtype, vectors, p.pivoting), made.count, elimination.SLOTS, numbers, sources, _grain(p.rows * width * steps // 16))


def _substitute(made, a, x, size, columns, upper, unit, threads):
    """x = a^-1 x in place, some rows of the triangle at a time."""
    lanes = host().lanes(made.size)
    vectors = min(4, -(-columns // lanes))
    vectors = 4 if vectors == 3 else vectors
    while vectors > 1 and made.count * -(-columns // (vectors * lanes)) < threads:
        vectors //= 2
    blocks = -(-columns // (vectors * lanes))
    kernel = substitution.substitution_kernel(made.dtype, vectors, unit)
    starts = range(0, size, BLOCK)
    for first in reversed(starts) if upper else starts:
        end = min(first + BLOCK, size)
        corner = end - 1 if upper else first  # where substitution begins
        sign = -1 if upper else 1
        own, rows = a.moved(corner, corner), x.moved(corner, 0)
        numbers = {"size": end - first, "columns": columns, "blocks": blocks, "a_matrix": a.matrix * made.size, "a_row": sign * a.row * made.size,
                   "a_column": sign * a.column * made.size, "x_matrix": x.matrix * made.size, "x_row": sign * x.row * made.size}
        made.kernel(kernel, made.count * blocks, substitution.SLOTS, numbers, {"a": own.slot(made.size), "x": rows.slot(made.size)}, _grain(size * size * vectors))
        low, high = (0, first) if upper else (end, size)
        made.product(x.moved(low, 0), a.moved(low, first), x.moved(first, 0), high - low, columns, end - first)
