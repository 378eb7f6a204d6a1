"""Groups with a single real rank, for plans of large ones.

>>> from rushlight import distributed as dist
>>> dist.init_process_group("fake", store=FakeStore(), rank=3, world_size=64)
>>> dist.get_rank(), dist.get_world_size()
(3, 64)
>>> dist.destroy_process_group()
"""
from __future__ import annotations

from ....distributed.backends import FakeEngine
from ....distributed.process_group import ProcessGroup
from ....distributed.stores import HashStore


class FakeStore(HashStore):
    """A store for a rank that is alone."""


class FakeProcessGroup(ProcessGroup):
    """The group of rank ``rank`` of ``size``, whose collectives involve no other process (``backends.FakeEngine``)."""

    def __init__(self, rank: int, size: int):
        super().__init__("fake", FakeStore(), rank, size, make=FakeEngine)
