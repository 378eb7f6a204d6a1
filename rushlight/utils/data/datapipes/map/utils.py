"""Sequences as pipes."""
from __future__ import annotations

import copy
import warnings

from ..datapipe import MapDataPipe

__all__ = ["SequenceWrapperMapDataPipe"]


class SequenceWrapperMapDataPipe(MapDataPipe):
    """A list or a dict as a pipe; a copy of it is kept (``deepcopy``)."""

    def __init__(self, sequence, deepcopy=True):
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:  # open files and similar objects
                warnings.warn("The input sequence can not be deepcopied, please be aware of in-place modification "
                              "would affect source data", stacklevel=2)

    def __getitem__(self, index):
        return self.sequence[index]

    def __len__(self):
        return len(self.sequence)
