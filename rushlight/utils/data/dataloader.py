"""The DataLoader, by PyTorch's module names."""
from __future__ import annotations

from .collate import default_collate, default_convert
from .dataset import Dataset, IterableDataset
from .iterators import _BaseDataLoaderIter, _DatasetKind, _InfiniteConstantSampler, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter  # noqa: F401
from .loader import DataLoader, get_worker_info
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["BatchSampler", "DataLoader", "Dataset", "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler",
           "default_collate", "default_convert",
           "get_worker_info"]
