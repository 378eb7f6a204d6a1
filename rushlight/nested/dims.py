"""Dimensions of nested tensors, counted as in their rows."""
from __future__ import annotations

from .._src.core.tensor import wrapped


def _outer_to_inner_dim(ndim, dim, ragged_dim, canonicalize=False):
    """The dimension of the rows that a dimension of a nested tensor is; the examples and what is ragged are one.

    ``dim``: a number or several, from 0 on unless ``canonicalize``; ``ragged_dim``: the ragged one.  AssertionError for
    a dimension that is not there.

    >>> _outer_to_inner_dim(4, (0, 1, 3), 1), _outer_to_inner_dim(4, -1, 1, canonicalize=True)
    ((0, 2), 2)
    """
    if isinstance(dim, (tuple, list)):
        return type(dim)(dict.fromkeys(_outer_to_inner_dim(ndim, d, ragged_dim, canonicalize) for d in dim))
    dim = wrapped(dim, ndim) if canonicalize else dim
    if not 0 <= dim < ndim:
        raise AssertionError(f"dim {dim} out of range for ndim {ndim}")
    return ragged_dim - 1 if dim == 0 else dim - 1
