"""Iterables as pipes."""
from __future__ import annotations

import copy
import warnings

from ..datapipe import IterDataPipe

__all__ = ["IterableWrapperIterDataPipe"]


class IterableWrapperIterDataPipe(IterDataPipe):
    """An iterable as a pipe; it is copied at each pass (``deepcopy``), so that none changes it."""

    def __init__(self, iterable, deepcopy=True):
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self):
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:  # open files and generators
                warnings.warn("The input iterable can not be deepcopied, please be aware of in-place modification "
                              "would affect source data.", stacklevel=2)
        yield from source

    def __len__(self):
        return len(self.iterable)
