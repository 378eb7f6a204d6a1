"""Items in another order."""
from __future__ import annotations

from ...seeds import Shuffled
from ..datapipe import IterDataPipe, MapDataPipe

__all__ = ["ShufflerIterDataPipe"]


class ShufflerIterDataPipe(Shuffled, IterDataPipe):
    """The items of a pipe with keys in random order, iterated."""

    def __init__(self, datapipe, *, indices=None):
        self.datapipe, self.indices = datapipe, list(range(len(datapipe))) if indices is None else indices
        super().__init__()

    def __iter__(self):
        self.reset()
        order = self.indices
        if self._enabled:
            order = reversed(self._rng.sample(self.indices, len(self.indices)))
        for key in order:
            yield self.datapipe[key]

    def __len__(self):
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
