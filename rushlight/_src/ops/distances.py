"""Distances between rows."""
from __future__ import annotations

from ..core.dtypes import type_name
from ..core.kinds import P
from ..core.meta import broadcast
from ..core.op import OPS, op, rule
from .reduce import divide_or_zero

F = "nn.functional"


def check_dtypes(x1, x2):
    """Raise RuntimeError unless both are of one floating-point dtype."""
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {type_name(x.dtype)}")
    if x1.dtype is not x2.dtype:
        raise RuntimeError(f"expected scalar type {type_name(x1.dtype)} but found {type_name(x2.dtype)}")


@op(composite=True, method=False, autocast="float32")
def cdist(x1, x2, p=2.0, compute_mode=None):
    """The p-norm distance between every row of x1 and every row of x2."""
    if x1.dim() < 2 or x2.dim() < 2 or x1.size(-1) != x2.size(-1):
        raise RuntimeError(
            f"cdist: X1 and X2 must have the same number of columns and at least two dimensions. X1: {list(x1.shape)} "
            f"X2: {list(x2.shape)}")
    check_dtypes(x1, x2)
    if not p >= 0:  # NaN is not a norm either
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    if compute_mode not in MODES_OF_CDIST:
        raise ValueError(
            f"cdist: compute_mode must be one of {', '.join(map(repr, MODES_OF_CDIST))}, but it is {compute_mode!r}")
    many = MODES_OF_CDIST[compute_mode]
    if p == 2 and (many if many is not None else max(x1.size(-2), x2.size(-2)) > MOST_BY_DIFFERENCES):
        batch = broadcast(tuple(x1.shape[:-2]), tuple(x2.shape[:-2]))
        return distances_by_products(x1.expand(*batch, *x1.shape[-2:]), x2.expand(*batch, *x2.shape[-2:]))
    return distances(x1, x2, p)


MOST_BY_DIFFERENCES = 25  # rows beyond which Euclidean distances are computed by matmul, as in PyTorch
MODES_OF_CDIST = {None: None, "use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": True,
                  "donot_use_mm_for_euclid_dist": False}


@op(method=False, name="_distances")
def distances(x1, x2, p):
    """p-norms of the differences between every row of x1 [*, n, d] and every row of x2 [*, m, d], which are not
    materialized: [*, n, m]."""
    rows = P.reshape(x1, shape=(*x1.shape[:-1], 1, x1.shape[-1]))
    others = P.reshape(x2, shape=(*x2.shape[:-2], 1, *x2.shape[-2:]))
    return OPS["norm"](OPS["sub"](rows, others), p, -1)


@op(method=False, name="_distances_by_products")
def distances_by_products(x1, x2):
    """Euclidean distances between the rows of x1 [*, n, d] and of x2 [*, m, d], by |a|^2 + |b|^2 - 2 a b: [*, n, m]."""
    last, rank = len(x1.shape) - 1, len(x1.shape)
    turned = (*range(rank - 2), last, rank - 2)
    a, b = P.sum(P.mul(x1, x1), (last,)), P.permute(P.sum(P.mul(x2, x2), (last,)), dims=turned)
    square = P.sub(P.add(a, b), P.mul(P.matmul(x1, P.permute(x2, dims=turned)), 2.0))
    return P.sqrt(P.maximum(square, 0.0))


@rule(distances_by_products)
def vjp(g, y, x1, x2):  # noqa: F811
    """Each row moves along its differences; at distance 0 none does."""
    last, rank = len(x1.shape) - 1, len(x1.shape)
    turned = (*range(rank - 2), last, rank - 2)
    share = divide_or_zero(g, y)
    back = P.permute(share, dims=turned)
    return [P.sub(P.mul(x1, P.sum(share, (last,))), P.matmul(share, x2)),
            P.sub(P.mul(x2, P.sum(back, (last,))), P.matmul(back, x1))]


@op(composite=True, namespace=F)
def pdist(input, p=2.0):
    """The p-norm distance between every pair of rows."""
    if not p >= 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    n = input.size(0)
    first, second = OPS["triu_indices"](n, n, 1).unbind(0)
    return distances_of_pairs(input, first, second, p)


@op(method=False, name="_distances_of_pairs")
def distances_of_pairs(x, first, second, p):
    """p-norms of the differences between the rows of x [n, d] at ``first`` and at ``second``: [count]."""
    return OPS["norm"](OPS["sub"](P.take(x, first, dim=0), P.take(x, second, dim=0)), p, -1)
