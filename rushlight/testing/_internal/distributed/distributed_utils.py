"""Tests as one rank of a world that is not there."""
from __future__ import annotations

import contextlib
import functools

from .... import distributed as dist
from .fake_pg import FakeStore


@contextlib.contextmanager
def with_dist(rank=0, world_size=2):
    """A block in which this process is one rank of many, alone (the backend "fake")."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    try:
        yield
    finally:
        dist.destroy_process_group()


def with_fake_comms(func=None, rank=0, world_size=2):
    """Runs a test method as ``with_dist`` does."""
    if func is None:
        return functools.partial(with_fake_comms, rank=rank, world_size=world_size)

    @functools.wraps(func)
    def inside(self, *args, **kwargs):
        with with_dist(rank, world_size):
            func(self, *args, **kwargs)
    return inside
