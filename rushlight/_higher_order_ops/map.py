"""A function of each row."""
from __future__ import annotations

from .._src.core.native import Tensor
from .._src.core.pytree import tree_leaves
from .scan import loop

__all__ = ["map"]


def map(f, xs, *args):
    """``f(x, *args)`` for each slice x of ``xs``, a tree of tensors, along their first dimension: the results stacked.

    RuntimeError for tensors without a first dimension or of different lengths, and for none.

    >>> import rushlight as torch
    >>> from rushlight._higher_order_ops import map
    >>> map(lambda x, y: x.sum() * y, torch.ones(2, 3), torch.tensor(2.0))
    tensor([6., 6.])
    """
    leaves = tree_leaves(xs)
    if not leaves or not all(isinstance(x, Tensor) for x in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {xs}.")
    if any(x.dim() == 0 for x in leaves) or any(x.shape[0] != leaves[0].shape[0] for x in leaves):
        raise RuntimeError(
            f"Leading dimensions of mapped xs must be consistent. Got shapes {[tuple(x.shape) for x in leaves]}.")
    if leaves[0].shape[0] == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    return loop(lambda carry, x: (carry, f(x, *args)), (), xs)[1]
