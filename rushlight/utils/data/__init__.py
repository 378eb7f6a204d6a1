"""Datasets, samplers and the DataLoader."""
from .collate import default_collate, default_convert
from .dataset import ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset, random_split
from .loader import DataLoader, get_worker_info
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler

__all__ = ["BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset",
           "Subset", "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "default_collate", "default_convert", "get_worker_info", "random_split"]
LATER = {"IterDataPipe": "datapipes.iter", "functional_datapipe": "datapipes", "DistributedSampler": "distributed"}


def __getattr__(name):
    """Rooms that few programs enter are imported when they are first asked for."""
    from importlib import import_module

    if name in ("dataloader", "datapipes", "distributed", "_utils"):
        return import_module(f".{name}", __name__)
    if name in LATER:
        return getattr(import_module(f".{LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
