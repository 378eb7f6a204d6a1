"""Sums and products of vectors and matrices that are not contractions: trace, Kronecker product, cross product."""
from __future__ import annotations

from ..core.advice import warn
from ..core.dtypes import int64
from ..core.kinds import P
from ..core.op import op
from .promotion import promoted


@op(autocast="float32")
def trace(input):
    """The sum of a matrix's diagonal."""
    if len(input.shape) != 2:
        raise RuntimeError("trace: expected a matrix")
    length = min(input.shape)
    picked = P.diagonal(input, row=0, column=0, length=length)
    picked = picked if picked.dtype.is_inexact else P.convert(picked, dtype=int64)
    return P.reshape(P.sum(picked, (0,)), shape=())


@op(overwritable=("input", "other"))
def kron(input, other):
    """The Kronecker product."""
    x, y = promoted(input, other)
    rank = max(len(x.shape), len(y.shape))
    a, b = ((1,) * (rank - len(v.shape)) + tuple(v.shape) for v in (x, y))
    left = P.reshape(x, shape=tuple(n for s in a for n in (s, 1)))
    right = P.reshape(y, shape=tuple(n for s in b for n in (1, s)))
    return P.reshape(P.mul(left, right), shape=tuple(m * n for m, n in zip(a, b)))


@op
def cross(input, other, dim=None):
    """The cross product of vectors of three along a dimension."""
    from ..core.meta import broadcast
    from ..core.tensor import wrapped
    from .slices import sliced
    x, y = promoted(input, other)
    shape = broadcast(x.shape, y.shape)
    if dim is None:
        warn("torch.cross without dim is deprecated: it uses the first dimension of size 3, whereas torch.linalg.cross "
             "uses the last one. Pass dim.")
        dim = next((k for k, s in enumerate(shape) if s == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    at = wrapped(dim, len(shape))
    if len(x.shape) != len(y.shape):
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    if x.shape[at] != 3 or y.shape[at] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {x.shape[at]} and {y.shape[at]}")
    a, b = ([sliced(v, at, k, 1, 1) for k in range(3)] for v in (x, y))
    parts = [P.sub(P.mul(a[i], b[j]), P.mul(a[j], b[i])) for i, j in ((1, 2), (2, 0), (0, 1))]
    return P.cat(tuple(parts), dim=at)
