"""Collections of samples."""
from __future__ import annotations

import bisect
import itertools
import math
from typing import Generic, TypeVar

from ..._src import flat as torch

_T_co = TypeVar("_T_co", covariant=True)  # the type of a sample
_T_stack = TypeVar("_T_stack", tuple, dict)


class Dataset(Generic[_T_co]):
    """Samples by index: subclasses define ``__getitem__`` and usually ``__len__``."""

    def __getitem__(self, index):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co]):
    """Samples in a stream: subclasses define ``__iter__``."""

    def __add__(self, other):
        return ChainDataset([self, other])

    def __iter__(self):
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")


class TensorDataset(Dataset):
    """Rows of tensors of equal length."""

    def __init__(self, *tensors):
        if any(tensors[0].size(0) != t.size(0) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def __len__(self):
        return self.tensors[0].size(0)


class StackDataset(Dataset[_T_stack]):
    """Corresponding samples of several datasets, as tuples or dictionaries."""

    def __init__(self, *args, **kwargs):
        if bool(args) == bool(kwargs):
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like input/output, but both "
                "types are given." if args else "At least one dataset should be passed")
        self.datasets = args or kwargs
        sizes = {len(d) for d in (args or kwargs.values())}
        if len(sizes) > 1:
            raise ValueError("Size mismatch between datasets")
        self._length = sizes.pop()

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {k: d[index] for k, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __getitems__(self, indices: list) -> list:
        """Several samples, which datasets that have ``__getitems__`` give at once."""
        named = isinstance(self.datasets, dict)
        columns = [taken(dataset, indices) for dataset in (self.datasets.values() if named else self.datasets)]
        return [dict(zip(self.datasets, row)) if named else row for row in zip(*columns)]

    def __len__(self):
        return self._length


def taken(dataset, indices: list):
    """Several samples of a dataset.  ValueError where it gives another number of them."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[k] for k in indices]
    found = dataset.__getitems__(indices)
    if len(found) != len(indices):
        raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(found)}")
    return found


class ConcatDataset(Dataset[_T_co]):
    """Datasets one after the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, index):
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[_T_co]):
    """Streams one after the other."""

    def __init__(self, datasets):
        super().__init__()
        self.datasets = datasets

    def __iter__(self):
        for dataset in self.datasets:
            check_stream(dataset)
            yield from dataset

    def __len__(self):
        for dataset in self.datasets:
            check_stream(dataset)
        return sum(len(d) for d in self.datasets)


def check_stream(dataset):
    """AssertionError for a dataset that is no stream."""
    if not isinstance(dataset, IterableDataset):
        raise AssertionError("ChainDataset only supports IterableDataset")


class Subset(Dataset[_T_co]):
    """Some samples of a dataset."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[k] for k in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list) -> list:
        """Several samples, which the dataset gives at once if it can."""
        return taken(self.dataset, [self.indices[k] for k in indices])

    def __len__(self):
        return len(self.indices)


def random_split(dataset, lengths, generator=None):
    """Disjoint random subsets of given lengths, or fractions that add up to one."""
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1 + 1e-9 and not all(isinstance(n, int) for n in lengths):
        shares = [math.floor(len(dataset) * f) for f in lengths]
        for k in range(len(dataset) - sum(shares)):
            shares[k % len(shares)] += 1
        lengths = shares
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = torch.randperm(sum(lengths), generator=generator).tolist()
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, order[end - n:end]) for n, end in zip(lengths, ends)]
