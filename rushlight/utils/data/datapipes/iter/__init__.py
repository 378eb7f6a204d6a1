"""Pipes that are iterated."""
from __future__ import annotations

from ...dataset import IterableDataset

__all__ = ["Batcher", "IterDataPipe", "IterableWrapper", "Mapper"]


class IterDataPipe(IterableDataset):
    """A dataset that is iterated; subclasses define ``__iter__``."""

    def __class_getitem__(cls, item):
        return cls

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} does not say what it iterates over")


class IterableWrapper(IterDataPipe):
    """An iterable as a pipe."""

    def __init__(self, iterable, deepcopy=True):
        self.iterable = iterable

    def __iter__(self):
        yield from self.iterable

    def __len__(self):
        return len(self.iterable)


class Mapper(IterDataPipe):
    """A function of each item of another pipe."""

    def __init__(self, datapipe, fn, input_col=None, output_col=None):
        self.datapipe, self.fn = datapipe, fn

    def __iter__(self):
        for item in self.datapipe:
            yield self.fn(item)

    def __len__(self):
        return len(self.datapipe)


class Batcher(IterDataPipe):
    """Lists of ``batch_size`` items of another pipe."""

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=list):
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = (datapipe, batch_size, drop_last,
                                                                              wrapper_class)

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


IterDataPipe.map = lambda self, fn, **kwargs: Mapper(self, fn, **kwargs)
IterDataPipe.batch = lambda self, batch_size, **kwargs: Batcher(self, batch_size, **kwargs)
