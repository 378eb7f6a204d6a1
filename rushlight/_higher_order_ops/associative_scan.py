"""Running combinations."""
from __future__ import annotations

from .._src import flat as torch
from .._src.core.pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["associative_scan"]


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """out[i] = xs[0] combined with ... xs[i] along ``dim``, for an associative function of two trees of tensors.

    By doubling: step k combines each place with the one 2^k before it.  ValueError for tensors of different lengths.

    >>> import rushlight as torch
    >>> from rushlight._higher_order_ops import associative_scan
    >>> associative_scan(lambda a, b: a + b, torch.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    """
    leaves, spec = tree_flatten(xs)
    lengths = {x.shape[dim] for x in leaves}
    if len(lengths) != 1:
        raise ValueError(f"associative_scan(): the tensors have different sizes {sorted(lengths)} along dim {dim}")
    length, = lengths
    leaves = [x.flip(dim) if reverse else x for x in leaves]
    step = 1
    while step < length:
        before = [x.narrow(dim, 0, length - step) for x in leaves]
        own = [x.narrow(dim, step, length - step) for x in leaves]
        combined, _ = tree_flatten(combine_fn(tree_unflatten(before, spec), tree_unflatten(own, spec)))
        leaves = [torch.cat([x.narrow(dim, 0, step), c], dim) for x, c in zip(leaves, combined)]
        step *= 2
    out = tree_unflatten(leaves, spec)
    return tree_map(lambda x: x.flip(dim), out) if reverse else out
