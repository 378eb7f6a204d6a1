"""Seeds for passes, workers and shuffled pipes."""
import random

from ..._src import flat as torch


def base_seed(generator=None) -> int:
    """A number of 63 bits from a random stream."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


class Shuffled:
    """What pipes in random order have in common: ``set_seed`` makes the next order repeatable, ``set_shuffle(False)``
    gives the order of the source."""

    def __init__(self):
        self._enabled, self._seed, self._rng = True, None, random.Random()

    def set_shuffle(self, shuffle=True):
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int):
        self._seed = seed
        return self

    def reset(self):
        """Seeds the next order."""
        if self._enabled:
            self._rng.seed(base_seed() if self._seed is None else self._seed)
            self._seed = None
