"""Several pipes as one, and one as several."""
from __future__ import annotations

import copy as copying
import warnings
from collections import deque

from ..datapipe import IterDataPipe, functional_datapipe

__all__ = ["ConcaterIterDataPipe", "DemultiplexerIterDataPipe", "ForkerIterDataPipe", "MultiplexerIterDataPipe",
           "ZipperIterDataPipe"]


def _checked(datapipes, name):
    if not datapipes and name == "Concater":
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
        raise TypeError(f"All inputs are required to be `IterDataPipe` for `{name}IterDataPipe`.")
    return datapipes


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe):
    """The items of pipes, one pipe after another."""

    def __init__(self, *datapipes):
        self.datapipes = _checked(datapipes, "Concater")

    def __iter__(self):
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self):
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe):
    """Tuples of an item of each pipe, until one ends."""

    def __init__(self, *datapipes):
        self.datapipes = _checked(datapipes, "Zip")

    def __iter__(self):
        yield from zip(*self.datapipes)

    def __len__(self):
        return min(map(len, self.datapipes))


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe):
    """An item of each pipe in turn, until one ends."""

    def __init__(self, *datapipes):
        self.datapipes = datapipes

    def __iter__(self):
        for items in zip(*self.datapipes):
            yield from items

    def __len__(self):
        return len(self.datapipes) * min(map(len, self.datapipes))


class _Shared:
    """One source that several pipes read: what one has read and another not yet waits in a queue of that one."""

    def __init__(self, datapipe, count, limit, what, route):
        self.datapipe, self.count, self.limit, self.what, self.route = datapipe, count, limit, what, route
        if limit < 0:
            warnings.warn("Unlimited buffer size is set for `fork`, please be aware of OOM at risk.", UserWarning,
                          stacklevel=4)
        self.begin()

    def begin(self):
        self.source, self.queues, self.reading = None, [deque() for _ in range(self.count)], [None] * self.count
        self.exhausted = False

    def __getstate__(self):
        return {**vars(self), "source": None, "queues": None, "reading": None}

    def __setstate__(self, state):
        vars(self).update(state)
        self.begin()

    def items(self, number, token):
        """The items of one reader; RuntimeError once another iterator of it has begun."""
        if self.reading[number] is not None:
            self.begin()
        self.reading[number] = token
        while True:
            if self.reading[number] is not token:
                raise RuntimeError("This iterator has been invalidated, because another iterator has been created from "
                                   f"one of the pipes of {self.what}.")
            if not self.queues[number]:
                if self.exhausted or not self.advance(number):
                    break
                continue
            yield self.queues[number].popleft()
        self.reading[number] = "ended" if self.reading[number] is token else self.reading[number]

    def advance(self, number) -> bool:
        """Reads items of the source until one is for a reader; False at its end."""
        self.source = iter(self.datapipe) if self.source is None else self.source
        while not self.queues[number]:
            try:
                item = next(self.source)
            except StopIteration:
                self.exhausted = True
                return False
            for reader, value in self.route(item):
                self.queues[reader].append(value)
            waiting = [len(q) for k, q in enumerate(self.queues) if k != number]
            total = max(waiting, default=0) if self.what == "Forker" else sum(waiting)
            if 0 <= self.limit < total:
                raise BufferError(f"{self.what}IterDataPipe buffer overflow, buffer size {self.limit} is insufficient.")
        return True


class _ChildDataPipe(IterDataPipe):
    """One of the pipes that read the same source."""

    def __init__(self, main_datapipe, instance_id):
        self.main_datapipe, self.instance_id = main_datapipe, instance_id

    def __iter__(self):
        return self.main_datapipe.items(self.instance_id, object())

    def __len__(self):
        if self.main_datapipe.what != "Forker":
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return len(self.main_datapipe.datapipe)


class _Every:
    """Gives each item to all readers."""

    def __init__(self, count, copy):
        self.count, self.copy = count, {"shallow": copying.copy, "deep": copying.deepcopy}.get(copy)

    def __call__(self, item):
        return [(k, item if self.copy is None else self.copy(item)) for k in range(self.count)]


class _Chosen:
    """Gives each item to one reader, by a function of it."""

    def __init__(self, count, classify, drop_none):
        self.count, self.classify, self.drop_none = count, classify, drop_none

    def __call__(self, item):
        reader = self.classify(item)
        if reader is None and self.drop_none:
            return []
        if reader is None or reader not in range(self.count):
            raise ValueError(f"Output of the classification fn should be between 0 and {self.count - 1}. {reader} is "
                             "returned.")
        return [(reader, item)]


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """Several pipes with the same items, as a list; they may be ``buffer_size`` items apart (-1: as many as may be).

    ``copy``: "shallow" or "deep" copies for each. BufferError where one is too far ahead.
    """

    def __new__(cls, datapipe, num_instances, buffer_size=1000, copy=None):
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")
        if copy not in (None, "shallow", "deep"):
            raise ValueError(f"Unknown copy method `{copy}` is provided, which should be one of `None`, `shallow`, "
                             "`deep`")
        if num_instances == 1:
            return datapipe
        shared = _Shared(datapipe, num_instances, buffer_size, "Forker", _Every(num_instances, copy))
        return [_ChildDataPipe(shared, k) for k in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """Several pipes, as a list, each with the items for which ``classifier_fn`` gives its number."""

    def __new__(cls, datapipe, num_instances, classifier_fn, drop_none=False, buffer_size=1000):
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")
        route = _Chosen(num_instances, classifier_fn, drop_none)
        shared = _Shared(datapipe, num_instances, buffer_size, "Demultiplexer", route)
        return [_ChildDataPipe(shared, k) for k in range(num_instances)]
