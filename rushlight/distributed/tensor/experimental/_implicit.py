"""Tensors that are not distributed among those that are."""
from __future__ import annotations

import contextlib

from .._dispatch import inside

__all__ = ["implicit_replication"]


class implicit_replication(contextlib.ContextDecorator):  # noqa: N801 - as PyTorch calls it
    """A block in which operators accept plain tensors together with DTensors, as replicated tensors.

    >>> import rushlight as torch
    >>> from rushlight.distributed import threads
    >>> from rushlight.distributed.tensor import distribute_tensor, init_device_mesh, Shard
    >>> def member(rank):
    ...     x = distribute_tensor(torch.arange(4.0), init_device_mesh("cpu", (2,)), [Shard(0)])
    ...     with implicit_replication():
    ...         return (x + torch.ones(4)).full_tensor().tolist()
    >>> threads.run(2, member)
    [[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]]
    """

    def __enter__(self):
        inside.depth += 1

    def __exit__(self, *error):
        inside.depth -= 1
