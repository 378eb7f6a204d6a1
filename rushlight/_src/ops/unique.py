"""Distinct elements, and runs of equal ones."""
from __future__ import annotations

import numpy as np

from ..core.dtypes import int64
from ..core.exchange import computed, values_of
from ..core.kinds import P
from ..core.meta import Meta
from ..core.op import op, rule
from ..core.tensor import wrapped
from .histories import without_derivative
from .index import nonzero_vector
from .sort import like_the_one_before


@op(composite=True, dynamic=True)
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """Distinct elements (or slices along ``dim``), sorted, with inverse indices and counts on request.  They are not
    differentiable: RuntimeError if a gradient reaches them."""
    return without_derivative("the derivative for 'unique' is not implemented.", (input,),
                              lambda input: distinct_of(input, return_inverse, return_counts, dim))


def distinct_of(input, return_inverse, return_counts, dim):
    if dim is None and not input.dtype.is_complex:
        return distinct_elements(input.detach(), return_inverse, return_counts)
    data = values_of(input.detach())
    out = np.unique(data, return_inverse=True, return_counts=True, axis=dim,
                    equal_nan=False)
    inverse = computed(out[1].reshape(data.shape if dim is None else (-1,)).astype(np.int64))
    results = [as_kind(out[0], input)] + [inverse] * bool(return_inverse) + [computed(out[2].astype(np.int64))] * bool(
        return_counts)
    return results[0] if len(results) == 1 else tuple(results)


def distinct_elements(input, return_inverse, return_counts):
    """Compute ``unique``: sort, then take the first of each run of equal elements."""
    size = input.numel()
    if not size:
        return runs(input.reshape(-1), input.shape, return_inverse, return_counts)
    order, places, begins = runs_in_order(input.reshape(-1))
    results = [order[begins]]
    if return_inverse:
        results.append(places.new_zeros(size).scatter(0, places, numbers_of(begins)).reshape(input.shape))
    if return_counts:
        results.append(lengths_between(nonzero_vector(begins), size))
    return results[0] if len(results) == 1 else tuple(results)


@op(method=False, name="_runs_in_order")
def runs_in_order(input):
    """[n] -> its sorted elements, their indices, and flags of those that begin a run of equal ones."""
    order, places = P.sort(input, dim=0, descending=False)
    return order, places, begins_run(order)


@op(method=False, name="_begins_run")
def begins_run(input):
    """True for elements along the last dimension that differ from the one before."""
    return P.logical_not(like_the_one_before(input))


@op(method=False, name="_numbers_of")
def numbers_of(begins):
    """Index of the run of each element."""
    return P.sub(P.cumsum(P.convert(begins, dtype=int64), dim=0), 1)


def lengths_between(starts, size):
    """Number of elements between one start and the next, or the end."""
    from .scan import diff
    return diff(starts, append=starts.new_full((1,), size))


def runs(flat, shape, return_inverse, return_counts):
    """First element of each run of equal ones, with the run index of each element and the lengths of runs on
    request."""
    begins = begins_run(flat) if flat.numel() else flat.bool()
    results = [flat[begins]]
    if return_inverse:
        results.append((numbers_of(begins) if flat.numel() else begins.long()).reshape(shape))
    if return_counts:
        results.append(lengths_between(nonzero_vector(begins), flat.numel()))
    return results[0] if len(results) == 1 else tuple(results)


@rule(unique)
def unmeasured(some, input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    return distinct(some(), input, return_inverse, return_counts, dim)


def distinct(count, input, return_inverse, return_counts, dim):
    """Metadata of ``count`` distinct elements or slices, of their inverse indices and counts."""
    shape = tuple(input.shape)
    at = None if dim is None else wrapped(dim, len(shape))
    values = Meta.of((count,) if at is None else (*shape[:at], count, *shape[at + 1:]), input.dtype, input.device)
    inverse = Meta.of(shape if at is None else (shape[at],), int64, input.device)
    results = (values, *[inverse] * bool(return_inverse),
               *[Meta.of((count,), int64, input.device)] * bool(return_counts))
    return results if len(results) > 1 else values


def as_kind(array, like):
    from ..core.exchange import computed
    return computed(np.ascontiguousarray(array), like.dtype)


@op(composite=True, dynamic=True)
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Reduce runs of equal elements (or slices) to one each.  The results are not differentiable: RuntimeError if a
    gradient reaches them."""
    return without_derivative("the derivative for 'unique_consecutive' is not implemented.", (input,),
                              lambda input: runs_of(input, return_inverse, return_counts, dim))


def runs_of(input, return_inverse, return_counts, dim):
    if dim is None:
        return runs(input.detach().reshape(-1), input.shape, return_inverse, return_counts)
    data = values_of(input.detach())
    rows = np.moveaxis(data, dim, 0).reshape(data.shape[dim], -1)
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (rows[1:] != rows[:-1]).any(1)
    starts = np.flatnonzero(fresh)
    results = [as_kind(np.take(data, starts, dim), input)]
    if return_inverse:
        results.append(computed((np.cumsum(fresh) - 1).astype(np.int64)))
    if return_counts:
        results.append(computed(np.diff(np.append(starts, len(rows))).astype(np.int64)))
    return results[0] if len(results) == 1 else tuple(results)


@rule(unique_consecutive)
def unmeasured(some, input, return_inverse=False, return_counts=False, dim=None):  # noqa: F811
    return distinct(some(), input, return_inverse, return_counts, dim)
