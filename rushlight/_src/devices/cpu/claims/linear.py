"""Linear algebra by kernels: which calls have kernels, and the problems of their templates."""
from __future__ import annotations

from ....core.failures import BATCHED
from ....core.kinds import P
from ....core.meta import Meta, product, row_major
from ....ops import factor
from ....compiler.places import FLAG, Place

FLOATS = ("float32", "float64")
MOST_TURNED = 400  # rows of a symmetric matrix whose eigenvectors are found as fast as by LAPACK
# rows and columns of a matrix up to which rotations are as fast as LAPACK for singular values, with and without vectors
MOST_ROTATED, MOST_VALUED = 32, 16


def in_rows(meta: Meta) -> bool:
    return meta.contiguous


def rows_or_columns(meta: Meta) -> bool:
    """True if matrices are row-major or column-major."""
    return meta.contiguous or meta.strides == turned(meta.shape)


def turned(shape) -> tuple:
    """Strides of column-major matrices."""
    *lead, rows, columns = row_major((*shape[:-2], shape[-1], shape[-2]))
    return (*lead, columns, rows)


def suits(node) -> bool:
    """True if there are kernels for these matrices."""
    return node.args[0].dtype.name in FLOATS and all(0 not in n.shape for n in node.used)


def parts(x) -> int:
    """Number of real components of an element."""
    return 2 if x.dtype.is_complex else 1


def factors(node) -> bool:
    """True if there are kernels for factors and systems: complex matrices must be small enough for one block."""
    if not node.args[0].dtype.is_complex:
        return suits(node)
    from ..templates.linear import MOST_PAIRED
    from ..llvm.features import targeted

    a = node.args[0]
    return all(0 not in n.shape
               for n in node.used) and 2 * a.shape[-1] <= MOST_PAIRED * targeted().lanes(a.dtype.itemsize // 2)


def substitutes(node) -> bool:
    """True if there are kernels for triangular systems: complex ones must be small enough for one block."""
    if not node.args[0].dtype.is_complex:
        return suits(node)
    from ..templates.linear import BLOCK

    return all(0 not in n.shape
               for n in node.used) and node.args[0].shape[-1] <= BLOCK and node.args[1].dtype is node.args[0].dtype


def count(x) -> int:
    """Number of matrices."""
    return product(x.shape[:-2])


def reported(node, kind: int) -> int:
    """The failure that a checked call reports."""
    if not node.params["check"]:
        return 0
    return kind + BATCHED * (len(node.args[0].shape) > 2)


def flag():
    return Place(FLAG, None)


def plan_lu(assembler, node, targets, prologues):
    from ..templates.linear import Factors, plan_factors

    a = node.args[0]
    packed, pivots, info = targets
    return plan_factors, Factors(count(a), *a.shape[-2:], a.dtype.to_real().name, True,
                                 parts=parts(a)), {"a": assembler.operand(a, in_rows), "packed": packed,
                                                   "pivots": pivots, "info": info, "flag": flag()}


def plan_cholesky(assembler, node, targets, prologues):
    from ..templates.linear import Factors, plan_factors

    a = node.args[0]
    problem = Factors(count(a), *a.shape[-2:], a.dtype.name, False, reported(node, factor.NOT_POSITIVE))
    return plan_factors, problem, {"a": assembler.operand(a, in_rows), "packed": targets[0], "info": targets[1],
                                   "flag": flag()}


def plan_triangular(assembler, node, targets, prologues):
    from ..templates.linear import Triangle, plan_triangle

    a, b = node.args
    place = assembler.operand(a, rows_or_columns)
    size = a.shape[-1]
    strides = (size * size, size, 1) if place.meta.contiguous else (size * size, 1, size)
    problem = Triangle(count(a), size, b.shape[-1], a.dtype.to_real().name, strides, node.params["upper"],
                       node.params["unit"], parts(a))
    return plan_triangle, problem, {"a": place, "b": assembler.operand(b, in_rows), "x": targets[0]}


def plan_solution(assembler, node, targets, prologues):
    from ..templates.linear import System, plan_system

    a, *b = node.args
    operands = {"a": assembler.operand(a, in_rows), "x": targets[0], "info": targets[1], "flag": flag()}
    if b:
        operands["b"] = assembler.operand(b[0], in_rows)
    kind = factor.SINGULAR_SYSTEM if b else factor.SINGULAR_INVERSE
    return plan_system, System(count(a), a.shape[-1], b[0].shape[-1] if b else 0, a.dtype.to_real().name,
                               reported(node, kind), parts(a)), operands


def plan_qr(assembler, node, targets, prologues):
    from ..templates.linear import Orthogonal, plan_orthogonal

    a = node.args[0]
    problem = Orthogonal(count(a), *a.shape[-2:], a.dtype.name, node.params["mode"])
    return plan_orthogonal, problem, {"a": assembler.operand(a, in_rows), "q": targets[0], "r": targets[1]}


def plan_reflections(assembler, node, targets, prologues):
    from ..templates.linear import Orthogonal, plan_orthogonal

    a = node.args[0]
    return plan_orthogonal, Orthogonal(count(a), *a.shape[-2:], a.dtype.name,
                                       "raw"), {"a": assembler.operand(a, in_rows), "packed": targets[0],
                                                "scales": targets[1]}


def turns(node) -> bool:
    """True if rotations are as fast as LAPACK for eigenvectors; it uses divide and conquer for large matrices."""
    return suits(node) and (node.op is P.eigvalsh or node.args[0].shape[-1] <= MOST_TURNED)


def plan_eigenvalues(assembler, node, targets, prologues):
    from ..templates.linear import Eigen, plan_eigen

    a = node.args[0]
    names = ("values", "vectors") if node.op is P.eigh else ("values",)
    failure = factor.NOT_CONVERGENT + BATCHED * (len(a.shape) > 2)
    problem = Eigen(count(a), a.shape[-1], a.dtype.name, node.params["uplo"] == "L", len(names) > 1, failure)
    return plan_eigen, problem, {"a": assembler.operand(a, in_rows), "flag": flag(), **dict(zip(names, targets))}


def rotates(node) -> bool:
    """True if rotations of pairs of columns are as fast as LAPACK for singular values: for few columns that are not
    very long."""
    rows, columns = node.args[0].shape[-2:]
    most = MOST_ROTATED if node.op is P.svd else MOST_VALUED
    return suits(node) and rows <= most and columns <= most and (node.op is P.svdvals or not node.params["full"]
                                                                 or rows == columns)


def plan_singular_values(assembler, node, targets, prologues):
    from ..templates.linear import Singular, plan_singular

    a = node.args[0]
    names = ("u", "values", "vh") if node.op is P.svd else ("values",)
    failure = factor.NO_SINGULAR_VALUES + BATCHED * (len(a.shape) > 2)
    problem = Singular(count(a), *a.shape[-2:], a.dtype.name, len(names) > 1, failure)
    return plan_singular, problem, {"a": assembler.operand(a, in_rows), "flag": flag(), **dict(zip(names, targets))}


def plan_row_order(assembler, node, targets, prologues):
    from ..templates.linear import Order, plan_order

    pivots = node.args[0]
    problem = Order(product(pivots.shape[:-1]), node.params["size"], pivots.shape[-1],
                    factor.NO_PIVOT + BATCHED * (len(pivots.shape) > 1))
    return plan_order, problem, {"pivots": assembler.operand(pivots, in_rows), "order": targets[0], "flag": flag()}


def has_exchanges(node) -> bool:
    return node.args[0].dtype.name == "int32" and 0 not in node.args[0].shape


PLANS = {P.lu: (factors, plan_lu), P.cholesky: (suits, plan_cholesky),
         P.solve_triangular: (substitutes, plan_triangular), P.solve: (factors, plan_solution),
         P.inverse: (factors, plan_solution), P.qr: (suits, plan_qr), P.geqrf: (suits, plan_reflections)}
