"""A loop over a dimension that carries values from place to place."""
from __future__ import annotations

from .._src import flat as torch
from .._src.core.native import Tensor
from .._src.core.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

__all__ = ["scan"]


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """``carry, y = combine_fn(carry, x)`` for each slice x of ``xs`` along ``dim``, beginning with ``carry = init``:
    (the last carry, all y stacked).

    All are trees of tensors.  In compiled code a loop over many slices, or as many as vary from call to call, becomes a
    program that runs for each; shorter ones are written out.  ``combine_fn`` has no effects.  RuntimeError for other
    arguments, and for no slices.

    >>> import rushlight as torch
    >>> from rushlight._higher_order_ops import scan
    >>> scan(lambda carry, x: (carry + x, carry * x), torch.tensor(0.0), torch.tensor([1.0, 2.0, 3.0]))
    (tensor(6.), tensor([0., 2., 9.]))
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise RuntimeError("Dim must be an int, but got " + str(type(dim)))
    if not isinstance(reverse, bool):
        raise RuntimeError("Reverse must be a bool, but got " + str(type(reverse)))
    first, leaves = tree_leaves(init), tree_leaves(xs)
    if not first:
        raise RuntimeError("scan() operator requires init leaves.")
    for name, values in (("init", first), ("xs", leaves)):
        for value in values:
            if not isinstance(value, Tensor):
                raise RuntimeError(f"All {name} leaves must be a Tensor but got {value}")
    if not leaves:
        return init, []
    if any(x.dim() <= dim or not x.shape[dim] for x in leaves):
        raise RuntimeError(
            f"All xs leaves must have a dimension {dim} of size above 0, but their shapes are "
            f"{[tuple(x.shape) for x in leaves]}")
    rows = tree_map(lambda x: x.movedim(dim, 0), xs)
    carry, ys = loop(combine_fn, init, tree_map(lambda x: x.flip(0), rows) if reverse else rows)
    ys = tree_map(lambda y: y.flip(0), ys) if reverse else ys
    return carry, tree_map(lambda y: y.movedim(0, dim) if y.dim() > dim else y, ys)


def loop(combine_fn, init, xs):
    """``steps``, which stays a loop in exported programs, however few steps there are."""
    return steps(combine_fn, init, xs)


def steps(combine_fn, init, xs):
    """``scan`` along the first dimension; ``init`` may be empty."""
    leaves, spec = tree_flatten(xs)
    rows = [x.unbind(0) for x in leaves]
    carry, found = init, []
    for row in zip(*rows):
        carry, y = combine_fn(carry, tree_unflatten(row, spec))
        found.append(y)
    return carry, stacked(found)


def stacked(trees):
    """Trees of tensors, nested alike, as one whose leaves are stacked."""
    spec = tree_flatten(trees[0])[1]
    columns = zip(*[tree_leaves(tree) for tree in trees])
    return tree_unflatten([torch.stack(list(column)) for column in columns], spec)
