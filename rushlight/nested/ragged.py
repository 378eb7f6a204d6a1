"""Ragged: a dimension whose size differs between examples, and the offsets of each example's rows."""
from __future__ import annotations

import itertools

import numpy as np

from .._src.core.dtypes import INTEGER
from .._src.core.exchange import from_numpy
from .._src.core.native import counter

numbers = itertools.count(1)


class Ragged:
    """Packed sequences: sequence i has the rows from ``starts[i]`` up to ``starts[i + 1]``, or ``lengths[i]`` of them.

    It stands for the ragged dimension's size in shapes, where it is shown as j1, j2, ...; tensors that share it fit
    together.
    """

    symbol = "SymInt"  # what PyTorch calls it

    def __init__(self, starts, lengths=None):
        for name, x in (("offsets", starts), ("lengths", lengths)):
            if x is not None and (x.dim() != 1 or x.dtype.category != INTEGER):
                raise RuntimeError(
                    f"{name} of a jagged tensor are integers in one dimension, got {x.dtype} of size {list(x.shape)}")
        self.starts, self.lengths, self.number = starts, lengths, next(numbers)
        self.seen, self.known = None, {}

    def __repr__(self):
        return f"j{self.number}"

    def read(self):
        """Return (start of each sequence, its length) as NumPy arrays, read again if they were mutated.

        RuntimeError for sequences of negative length, or that overlap.
        """
        version = counter(self.starts).version, None if self.lengths is None else counter(self.lengths).version
        if self.seen != version:
            starts = self.starts.numpy()
            lengths = np.diff(starts) if self.lengths is None else self.lengths.numpy()
            if len(starts) < 1 or len(lengths) != len(starts) - 1:
                raise RuntimeError(
                    f"offsets have one number more than there are sequences: got {len(starts)} offsets and "
                    f"{len(lengths)} lengths")
            if (lengths < 0).any() or starts[0] < 0 or (np.diff(starts) < lengths).any():
                raise RuntimeError(
                    "offsets must rise from 0 or more, and lengths fit between them; got offsets "
                    f"{starts.tolist()[:9]} and lengths {lengths.tolist()[:8]}")
            self.seen, self.known = version, {"starts": starts[:-1].astype(np.int64),
                                              "lengths": lengths.astype(np.int64), "end": int(starts[-1])}
        return self.known["starts"], self.known["lengths"]

    def check(self, rows: int):
        """RuntimeError where sequences end beyond the ``rows`` there are."""
        if self.end > rows:
            raise RuntimeError(f"offsets end at {self.end}, but there are {rows} rows of values")

    @property
    def count(self) -> int:
        """How many sequences there are."""
        return self.starts.size(0) - 1

    @property
    def end(self) -> int:
        """Return the end of the last sequence, or of its allocated rows."""
        self.read()
        return self.known["end"]

    @property
    def longest(self) -> int:
        lengths = self.read()[1]
        return int(lengths.max()) if len(lengths) else 0

    @property
    def shortest(self) -> int:
        lengths = self.read()[1]
        return int(lengths.min()) if len(lengths) else 0

    def spans(self):
        """(start, length) of each sequence."""
        return zip(*(x.tolist() for x in self.read()))

    @property
    def gaps(self) -> bool:
        """Whether some rows belong to no sequence."""
        starts = self.read()[0]
        return self.lengths is not None or len(starts) > 0 and bool(starts[0])

    def made(self, name, make):
        """What ``make`` computes, once for what was read last."""
        self.read()
        if name not in self.known:
            self.known[name] = from_numpy(np.ascontiguousarray(make(), dtype=np.int64))
        return self.known[name]

    @property
    def owners(self):
        """The number of the sequence that each row belongs to, sequence after sequence: [rows] int64."""
        return self.made("owners", lambda: np.repeat(np.arange(self.count), self.read()[1]))

    @property
    def places(self):
        """Each row's place within its sequence: [rows] int64."""
        return self.made("places", lambda: self.ramp(np.zeros(self.count, np.int64)))

    @property
    def rows(self):
        """Return the position of each row: [rows] int64."""
        return self.made("rows", lambda: self.ramp(self.read()[0]))

    def ramp(self, first):
        """Numbers that count up from ``first[i]`` within each sequence."""
        lengths = self.read()[1]
        ends = np.cumsum(lengths)
        return np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - lengths), lengths)

    def packed(self):
        """The same sequences without gaps."""
        return Ragged.of(self.read()[1])

    @classmethod
    def of(cls, lengths):
        """Return packed sequences of these lengths."""
        return cls(from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)))

    def closed(self, rows: int):
        """Return offsets [count + 2] with one more sequence of the left-over rows, of this total; if there were no
        gaps before."""
        return self.made(("closed", rows), lambda: [*self.read()[0], self.end, rows])

    def fits(self, other) -> bool:
        """Whether rows of both belong to the same sequences."""
        return self is other or (self.count == other.count
                                 and all(np.array_equal(a, b) for a, b in zip(self.read(), other.read())))

    def offsets(self):
        """Return ``starts`` for kernels: checked, and never mutated by others."""
        return self.made("offsets", lambda: [*self.read()[0], self.end])


def is_nested_int(s) -> bool:
    """Whether a size stands for a dimension that differs from example to example."""
    return isinstance(s, Ragged)
