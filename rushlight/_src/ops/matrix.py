"""Matrix norms, powers and chained matmuls."""
from __future__ import annotations

import math

from ..core.advice import deprecated
from ..core.kinds import P
from ..core.meta import product
from ..core.op import OPS, op, sample
from ..core.tensor import wrapped
from . import reduce
from .linalg import SQUARE, floating, inv, solve, square, svdvals, tolerance
from .matmul import matmul
from .promotion import downcast, real, upcast

NAMESPACE = "linalg"


# --- norms ------------------------------------------------------------------------------------------------------------
def check_norm(name, x, dtype):
    if not x.dtype.is_inexact:
        raise RuntimeError(
            f"linalg.{name}: Expected a floating point or complex tensor as input. Got {x.dtype}; convert it with "
            ".float() first.")
    if dtype is not None and dtype.is_complex != x.dtype.is_complex:
        raise RuntimeError(
            f"linalg.{name}: the dtype of the input ({x.dtype}) should be convertible without narrowing to the "
            f"specified dtype ({dtype})")


def dims_of(x, dim) -> tuple:
    """Dimensions as a tuple; None means all."""
    dims = tuple(range(x.dim())) if dim is None else tuple(wrapped(d, x.dim())
                                                           for d in (dim if isinstance(dim, (tuple, list)) else (dim,)))
    if x.dim() and len(set(dims)) != len(dims):
        raise RuntimeError(f"dim {dims[0]} appears multiple times in the list of dims")
    return dims if x.dim() else ()


@op(composite=True, namespace=NAMESPACE,
    samples=(sample((3, 4)), sample((3, 4), 3.0, 1), sample((3, 4), math.inf, 0, True)))
def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """(sum |x| ** ord) ** (1 / ord) over dimensions; inf and -inf give the extreme, 0 the count of non-zeros."""
    check_norm("vector_norm", x, dtype)
    dims = dims_of(x, dim if dim != () else None)
    if (ord < 0 or ord == math.inf) and any(x.shape[d] == 0 for d in dims):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have "
            "an identity")
    return reduce.vector_norm(x, real(ord), tuple(sorted(dims)), keepdim, dtype)


def extreme(values, largest, keepdim):
    """Maximum (minimum) of the last dimension, which is kept twice if the result keeps dimensions."""
    out = values.amax(-1) if largest else values.amin(-1)
    return out.unsqueeze(-1).unsqueeze(-1) if keepdim else out


@op(composite=True, namespace=NAMESPACE,
    samples=tuple(sample((3, 4), ord) for ord in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)))
def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """A norm of matrices: "fro" (root of squares), "nuc" (sum of singular values), 2 and -2 (extreme singular value), 1
    and -1 (extreme column sum), inf and -inf (extreme row sum)."""
    check_norm("matrix_norm", A, dtype)
    if A.dim() < 2:
        raise RuntimeError(f"linalg.matrix_norm: The input tensor A must have at least 2 dimensions. Got {A.dim()}")
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {list(dim)}")
    rows, columns = dims_of(A, dim)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    x = A if dtype is None else A.to(dtype)
    if ord == "fro":
        return vector_norm(x, 2, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        if x.dtype.is_half:
            raise RuntimeError(f"linalg.matrix_norm: not implemented for {x.dtype}: use .float() first.")
        values = svdvals(x.movedim((rows, columns), (-2, -1)))
        out = values.sum(-1, keepdim) if ord == "nuc" else extreme(values, ord == 2, keepdim)
        out = out.unsqueeze(-1) if keepdim and ord == "nuc" else out
        return restored(out, rows, columns) if keepdim else out
    if ord not in (1, -1, math.inf, -math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    added, left = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = vector_norm(x, 1, added, True)
    out = sums.amax(left, True) if ord > 0 else sums.amin(left, True)
    return out if keepdim else out.squeeze((rows, columns))


def restored(out, rows, columns):
    """Move two kept dimensions at the end back to those of the matrix."""
    return out.movedim((-2, -1), (rows, columns))


@op(composite=True, namespace=NAMESPACE, samples=(sample((3, 4)), sample((3, 4), "nuc"), sample((3, 4), 1, 0)))
def norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    """A matrix norm for two dimensions and an order, a vector norm for one, the root of the sum of squares without an
    order."""
    if isinstance(ord, str) and dim is None:
        dim = (-2, -1)
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if dim is not None and (isinstance(dim, int) or len(dim) == 1) or dim is None and A.dim() == 1:
        if isinstance(ord, str):
            raise RuntimeError(f"linalg.norm: order {ord!r} wants two dimensions, got dim={dim}")
        return vector_norm(A, ord, dim, keepdim, dtype=dtype)
    if dim is None and A.dim() != 2:
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.dim()}D.")
    if dim is not None and len(dim) > 2:
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    return matrix_norm(A, ord, (-2, -1) if dim is None else tuple(dim), keepdim, dtype=dtype)


@op(composite=True, namespace=NAMESPACE, samples=(sample((3, 3)), sample((4, 3), -2)))
def cond(A, p=None):
    """|A| |A^-1|, in the norm p (2 by default: the ratio of the extreme singular values)."""
    floating("cond", A)
    if p in (None, 2, -2):
        values = svdvals(A)
        if not values.numel():
            return values.sum(-1)
        low, high = values[..., -1], values[..., 0]
        return high / low if p != -2 else low / high
    square("cond", A)
    inverse, info = P.inverse(A, check=False)
    out = matrix_norm(A, p) * matrix_norm(inverse, p)
    return OPS["where"](info != 0, math.inf, out)


@op(composite=True, namespace=NAMESPACE)
def matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None):
    """Number of singular values above max(atol, rtol * largest).  [*, m, n] -> [*] int64."""
    floating("matrix_rank", A)
    values = P.eigh(A, uplo="L")[0].abs() if hermitian else svdvals(A)
    if not values.shape[-1]:
        return values.sum(-1).long()
    atol, rtol = tolerance(A, values.detach(), atol if tol is None else tol, rtol if tol is None else 0.0)
    cut = OPS["maximum"](atol, rtol * values.amax(-1))
    return (values > cut.unsqueeze(-1)).sum(-1)


# --- powers and matmuls -----------------------------------------------------------------------------------------------
@op(composite=True, namespace=NAMESPACE, method=True,
    samples=(sample((3, 3), 3), sample((2, 3, 3), 0), sample((3, 3), -2)))
def matrix_power(A, n):
    """A multiplied n times with itself, by repeated squaring; the inverse for negative n."""
    square("matrix_power", A) if n < 0 or A.dim() < 2 or A.shape[-1] != A.shape[-2] else None
    if n < 0:
        return matrix_power(inv(A), -n)
    if n == 0:
        return A.clone().copy_(OPS["eye"](A.shape[-1], dtype=A.dtype))
    out, square_ = None, A
    while n:
        if n & 1:
            out = square_ if out is None else matmul(out, square_)
        n >>= 1
        square_ = matmul(square_, square_) if n else square_
    return out if out is not A else A.clone()


@op(composite=True, namespace=NAMESPACE, method=True, samples=SQUARE)
def matrix_exp(A):
    """The matrix exponential sum A^k / k! (Higham 2005).  [*, n, n]."""
    x = upcast(A)
    square("matrix_exp", x)
    return downcast(P.matrix_exp(x), A)


def cheapest(sizes):
    """Split points of a chain of matmuls with these sizes that need the fewest multiplications: a table by (first,
    last)."""
    count = len(sizes) - 1
    cost, cut = {(k, k): 0 for k in range(count)}, {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i, j], cut[i, j] = min((cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                                        for k in range(i, j))
    return cut


@op(composite=True, namespace=NAMESPACE, method=False,
    samples=(sample([(3, 4), (4, 2), (2, 5)]), sample([(4,), (4, 2), (2,)])))
def multi_dot(tensors):
    """Multiply a chain of matrices, in the cheapest order; the first and the last may be vectors."""
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    for k, x in enumerate(tensors):
        if x.dim() != 2 and not (x.dim() == 1 and k in (0, len(tensors) - 1)):
            also = " or 1D" if k in (0, len(tensors) - 1) else ""
            raise RuntimeError(f"multi_dot(): tensor {k} must be 2D{also} but got {x.dim()}D")
    first, last = tensors[0].dim() == 1, tensors[-1].dim() == 1
    chain = list(tensors)
    chain[0] = chain[0].unsqueeze(0) if first else chain[0]
    chain[-1] = chain[-1].unsqueeze(-1) if last else chain[-1]
    cut = cheapest([chain[0].shape[0], *(x.shape[1] for x in chain)])

    def multiplied(i, j):
        return chain[i] if i == j else matmul(multiplied(i, cut[i, j]), multiplied(cut[i, j] + 1, j))

    out = multiplied(0, len(chain) - 1)
    out = out.squeeze(0) if first else out
    return out.squeeze(-1) if last else out


@op(composite=True, method=False)
def chain_matmul(*matrices):
    """``linalg.multi_dot``."""
    deprecated("torch.chain_matmul", "torch.linalg.multi_dot")
    return multi_dot(matrices) if len(matrices) > 1 else matrices[0]


@op(composite=True, namespace=NAMESPACE, samples=(sample((2, 3, 6), 2),))
def tensorinv(A, ind=2):
    """The inverse of A as a map from its last dimensions to its first ``ind``."""
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if product(first) != product(last):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{product(last)} != {product(first)}")
    return inv(A.reshape(product(first), product(last))).reshape(*last, *first)


@op(composite=True, namespace=NAMESPACE, samples=(sample((2, 3, 6), (2, 3)),))
def tensorsolve(A, B, dims=None):
    """x with tensordot(A, x, x.dim()) = B; ``dims`` of A are moved to its end first."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.dim() - len(dims), A.dim())))
    shape = tuple(A.shape[B.dim():])
    if product(A.shape[:B.dim()]) != product(shape) or B.numel() != product(shape):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {product(shape)} != {product(A.shape[:B.dim()])}")
    return solve(A.reshape(B.numel(), product(shape)), B.reshape(-1)).reshape(shape)


@op(composite=True, namespace=NAMESPACE, samples=(sample((4,)), sample((2, 3), N=2)))
def vander(x, *, N=None):
    """Columns of powers x^0, x^1, ... x^(N - 1).  [*, n] -> [*, n, N]."""
    if N is not None and N <= 1:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, got {N}")
    x = x if x.dim() else x.reshape(1)
    count = x.shape[-1] if N is None else N
    x = x.long() if not x.dtype.is_inexact else x
    columns = x.unsqueeze(-1).expand((*x.shape, count - 1))
    return OPS["cat"]([x.new_ones((*x.shape, 1)), columns.cumprod(-1)], -1)


@op(namespace=NAMESPACE, autocast="half", samples=(sample((3, 4), (3, 4)), sample((3, 4), (4,))))
def vecdot(x, y, *, dim=-1):
    """sum conj(x) * y along a dimension."""
    if x.dtype is not y.dtype:
        raise RuntimeError(f"linalg.vecdot: Expected x and y to have the same dtype, but found {x.dtype} and {y.dtype}")
    conjugated = P.conj(x) if x.dtype.is_complex else x
    return reduce.sum.body(OPS["mul"].body(conjugated, y), dim, dtype=x.dtype)


def namesake(name, function, doc, view=False):
    """Declare a top-level operator under its name in linalg."""
    function.__name__, function.__doc__ = name, doc
    return op(function, namespace=NAMESPACE, view=view)


namesake("diagonal", lambda A, *, offset=0, dim1=-2, dim2=-1: OPS["diagonal"].body(A, offset, dim1, dim2),
         "The diagonals of matrices.", view=True)
namesake("cross", lambda input, other, *, dim=-1: OPS["cross"].body(input, other, dim),
         "The cross product of vectors of three.")
namesake("matmul", lambda input, other: matmul.body(input, other), "The matrix product.")
