"""The DataLoader, by PyTorch's module names."""
from __future__ import annotations

from .collate import default_collate, default_convert  # noqa: F401
from .dataset import Dataset, IterableDataset  # noqa: F401
from .iterators import (_BaseDataLoaderIter, _InfiniteConstantSampler, _MultiProcessingDataLoaderIter,  # noqa: F401
                        _SingleProcessDataLoaderIter)  # noqa: F401
from .workers import _DatasetKind  # noqa: F401
from .loader import DataLoader, get_worker_info  # noqa: F401
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler  # noqa: F401
