"""Items together, and apart again."""
from __future__ import annotations

import warnings
from collections import defaultdict

from ..datapipe import DataChunk, IterDataPipe, functional_datapipe

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe):
    """Lists of ``batch_size`` items of another pipe."""

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=DataChunk):
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self):
        batch = []
        for item in self.datapipe:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self):
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """The items of lists of another pipe, ``unbatch_level`` deep; -1 for as deep as there are lists."""

    def __init__(self, datapipe, unbatch_level=1):
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self):
        for item in self.datapipe:
            yield from self._dive(item, self.unbatch_level)

    def _dive(self, item, level):
        if level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        nested = isinstance(item, (list, DataChunk))
        if level == 0 or level == -1 and not nested:
            yield item
        elif nested:
            for one in item:
                yield from self._dive(one, level - (level > 0))
        else:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe):
    """Lists of items with the same key.

    A group is given once it has ``group_size`` items, or once ``buffer_size`` items wait in all: then the largest is,
    if it has ``guaranteed_group_size``; with fewer it is dropped (``drop_remaining``) or RuntimeError is raised.
    """

    def __init__(self, datapipe, group_key_fn, *, keep_key=False, buffer_size=10000, group_size=None,
                 guaranteed_group_size=None, drop_remaining=False):
        self.datapipe, self.group_key_fn, self.keep_key, self.max_buffer_size = (datapipe, group_key_fn, keep_key,
                                                                                 buffer_size)
        self.group_size, self.drop_remaining, self.wrapper_class = group_size, drop_remaining, DataChunk
        self.guaranteed_group_size = (group_size if group_size is not None and buffer_size is not None
                                      and guaranteed_group_size is None else guaranteed_group_size)
        for name, value in (("group_size", group_size), ("guaranteed_group_size", self.guaranteed_group_size)):
            if value is not None and not (0 < value and (buffer_size is None or value <= buffer_size)
                                          and (group_size is None or value <= group_size)):
                raise AssertionError(f"{name} should be > 0 and <= buffer_size and group_size")

    def _given(self, key, group):
        chunk = self.wrapper_class(group)
        return (key, chunk) if self.keep_key else chunk

    def _overflow(self, groups):
        """The key of the largest group, which leaves."""
        key = max(groups, key=lambda k: len(groups[k]))
        if self.guaranteed_group_size is not None and len(groups[key]) < self.guaranteed_group_size:
            if not self.drop_remaining:
                raise RuntimeError(f"Failed to group items: {[key, groups[key]]}")
            warnings.warn("Some groups are dropped: they are smaller than guaranteed_group_size", stacklevel=2)
            return key, False
        return key, True

    def __iter__(self):
        groups, waiting = defaultdict(list), 0
        for item in self.datapipe:
            key = self.group_key_fn(item)
            groups[key].append(item)
            waiting += 1
            if self.group_size is not None and len(groups[key]) == self.group_size:
                waiting -= self.group_size
                yield self._given(key, groups.pop(key))
            elif self.max_buffer_size is not None and waiting == self.max_buffer_size:
                key, given = self._overflow(groups)
                group = groups.pop(key)
                waiting -= len(group)
                if given:
                    yield self._given(key, group)
        for key, group in groups.items():
            yield self._given(key, group)
