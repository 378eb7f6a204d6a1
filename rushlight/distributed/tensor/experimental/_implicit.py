"""Tensors that are not distributed among those that are."""
from __future__ import annotations

import contextlib

from .._dispatch import Body

__all__ = ["implicit_replication"]


@contextlib.contextmanager
def implicit_replication():
    """A block in which operators take plain tensors beside DTensors: all processes have the same.

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
    with Body():
        yield
