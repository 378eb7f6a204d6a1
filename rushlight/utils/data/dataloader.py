"""The DataLoader, by PyTorch's module names."""
from __future__ import annotations

from ...compat.absent import absent
from .collate import default_collate, default_convert
from .dataset import Dataset, IterableDataset
from .loader import DataLoader, get_worker_info
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from ...core.later import later

__all__ = ["BatchSampler", "DataLoader", "Dataset", "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "default_collate", "default_convert",
           "get_worker_info"]
globals().update(absent("torch.utils.data.dataloader", "the loader iterates by generators of its own",
                        "_BaseDataLoaderIter _SingleProcessDataLoaderIter _MultiProcessingDataLoaderIter"))


__getattr__ = later(__name__)
