"""Items in another order."""
from __future__ import annotations

import random

from ...seeds import base_seed
from ..datapipe import IterDataPipe, MapDataPipe

__all__ = ["ShufflerIterDataPipe"]


class ShufflerIterDataPipe(IterDataPipe):
    """The items of a pipe with keys in random order, iterated."""

    def __init__(self, datapipe, *, indices=None):
        self.datapipe, self.indices = datapipe, list(range(len(datapipe))) if indices is None else indices
        self._enabled, self._seed, self._rng = True, None, random.Random()

    def set_shuffle(self, shuffle=True):
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int):
        self._seed = seed
        return self

    def __iter__(self):
        order = self.indices
        if self._enabled:
            self._rng.seed(base_seed() if self._seed is None else self._seed)
            self._seed = None
            order = reversed(self._rng.sample(self.indices, len(self.indices)))
        for key in order:
            yield self.datapipe[key]

    def __len__(self):
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
