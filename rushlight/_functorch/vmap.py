"""``torch._functorch.vmap``: the parts of ``vmap`` that libraries call for values of their own."""
from __future__ import annotations

from types import SimpleNamespace

from .._src.core.interpret import Suspended, active
from .._src.core.native import Tensor
from .._src.core.pytree import tree_flatten, tree_unflatten  # noqa: F401
from .._src.transforms.batch import Batch, Batched
from .._src.transforms.vmap import name_of as _get_name, unbatched  # noqa: F401
from ..utils._pytree import _broadcast_to_and_flatten  # noqa: F401


def find_level(number: int) -> Batch:
    """Return the active vmap of a level. RuntimeError if the level is none of a vmap."""
    for level in active():
        if isinstance(level, Batch) and level.number == number:
            return level
    raise RuntimeError(f"expected the level of a vmap that runs, got {number}")


def _add_batch_dim(self: Tensor, batch_dim: int, level: int) -> Tensor:
    """Return a tensor with one dimension mapped by the vmap of a level."""
    mapping = find_level(level)
    with Suspended(mapping):
        return Batched(mapping, self.movedim(batch_dim, 0))


def _remove_batch_dim(self: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    """Return a tensor with the dimension that the vmap of a level maps over at ``out_dim``."""
    return _maybe_remove_batch_dim("_remove_batch_dim", self, level, batch_size, out_dim)


def _maybe_remove_batch_dim(name: str, batched_output, vmap_level: int, batch_size: int, out_dim: int | None):
    """Return a result of the function ``name`` with the dimension that the vmap of a level maps over at ``out_dim``.

    What is the same for all examples is repeated. ValueError for what is no tensor, unless ``out_dim`` is None, and for
    a mapped tensor if it is.
    """
    mapping = find_level(vmap_level)
    with Suspended(mapping):
        return unbatched(SimpleNamespace(__name__=name), mapping, batched_output, out_dim)
