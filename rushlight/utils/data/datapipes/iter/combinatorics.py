"""Items in another order."""
from __future__ import annotations

from ...seeds import Shuffled
from ...sampler import Sampler, SequentialSampler
from ..datapipe import IterDataPipe, functional_datapipe

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


class SamplerIterDataPipe(IterDataPipe):
    """Yields the items of a sampler, a class that is called with the pipe."""

    def __init__(self, datapipe, sampler=SequentialSampler, sampler_args=None, sampler_kwargs=None):
        self.datapipe, self.sampler_args = datapipe, () if sampler_args is None else sampler_args
        self.sampler_kwargs = {**(sampler_kwargs or {}), "data_source": datapipe}
        self.sampler = sampler(*self.sampler_args, **self.sampler_kwargs)
        if not isinstance(self.sampler, Sampler):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")

    def __iter__(self):
        return iter(self.sampler)

    def __len__(self):
        return len(self.sampler)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Shuffled, IterDataPipe):
    """Items in random order: each is drawn from a buffer of the next ``buffer_size``.

    ``set_seed`` makes the next order repeatable, ``set_shuffle(False)`` gives the order of the source.
    """

    def __init__(self, datapipe, *, buffer_size=10000, unbatch_level=0):
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)
        self.buffer_size = buffer_size
        super().__init__()

    def __iter__(self):
        if not self._enabled:
            yield from self.datapipe
            return
        self.reset()
        waiting = []
        for item in self.datapipe:
            if len(waiting) < self.buffer_size:
                waiting.append(item)
                continue
            place = self._rng.randint(0, len(waiting) - 1)
            drawn, waiting[place] = waiting[place], item
            yield drawn
        while waiting:
            yield waiting.pop(self._rng.randint(0, len(waiting) - 1))

    def __len__(self):
        return len(self.datapipe)
