"""Datasets, samplers and the DataLoader."""
from ..._src.core.later import later
from .collate import default_collate, default_convert  # noqa: F401
from .dataset import (ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset,
                      random_split)  # noqa: F401
from .loader import DataLoader, get_worker_info  # noqa: F401
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler

__getattr__ = later(__name__, {"datapipes.iter": ("IterDataPipe",), "datapipes": ("functional_datapipe",),
                               "distributed": ("DistributedSampler",)})
