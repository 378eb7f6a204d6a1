"""A part of the items for each process."""
from __future__ import annotations

import enum

from ..datapipe import IterDataPipe, functional_datapipe

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(enum.IntEnum):  # noqa: N801 - PyTorch's name
    """Order of sharding filters."""

    DEFAULT, DISTRIBUTED, MULTIPROCESSING = 1, 2, 3


class _ShardingIterDataPipe(IterDataPipe):
    """A pipe whose shard can be set."""

    def apply_sharding(self, num_of_instances, instance_id, sharding_group):
        raise NotImplementedError


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(_ShardingIterDataPipe):
    """Every n-th item, once ``apply_sharding`` has said which."""

    def __init__(self, source_datapipe, sharding_group_filter=None):
        self.source_datapipe, self.sharding_group_filter = source_datapipe, sharding_group_filter
        self.groups, self.num_of_instances, self.instance_id = {}, 1, 0

    def apply_sharding(self, num_of_instances, instance_id, sharding_group=SHARDING_PRIORITIES.DEFAULT):
        """Says how many parts there are, and which is this one's.  ValueError where there is no such part."""
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        default = SHARDING_PRIORITIES.DEFAULT
        if self.groups and (sharding_group == default) != (default in self.groups):
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = num_of_instances, instance_id
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups, reverse=True):
            if self.sharding_group_filter is None or group == self.sharding_group_filter:
                count, number = self.groups[group]
                self.instance_id += self.num_of_instances * number
                self.num_of_instances *= count

    def __iter__(self):
        for k, item in enumerate(self.source_datapipe):
            if k % self.num_of_instances == self.instance_id:
                yield item

    def __len__(self):
        count = len(self.source_datapipe)
        return count // self.num_of_instances + (self.instance_id < count % self.num_of_instances)
