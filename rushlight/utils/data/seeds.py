"""Seeds for passes, workers and shuffled pipes, and which processes share a pass."""
import random
import weakref

from ..._src import flat as torch

GROUPS = weakref.WeakKeyDictionary()  # a world's group -> the group in which its seeds travel


def base_seed(generator=None) -> int:
    """A number of 63 bits from a random stream."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def ranks() -> tuple:
    """How many processes share the items of data pipes, and which of them this one is."""
    from ... import distributed
    return (distributed.get_world_size(), distributed.get_rank()) if distributed.is_initialized() else (1, 0)


def shared_seed(generator=None) -> int:
    """A seed that all processes of the world have: the first one's.  Each of them has to ask."""
    from ... import distributed
    seed = base_seed(generator)
    if not distributed.is_initialized():
        return seed
    world = distributed.group.WORLD
    if world not in GROUPS:
        GROUPS[world] = distributed.new_group(backend="gloo")
    told = torch.tensor(seed, dtype=torch.int64)
    distributed.broadcast(told, 0, group=GROUPS[world])
    return int(told.item())


class Shuffled:
    """Base of shuffling pipes: ``set_seed`` makes the next order repeatable, ``set_shuffle(False)`` restores the
    order of the source."""

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
