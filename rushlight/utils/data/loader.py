"""DataLoader: batches of a dataset, made here or by worker processes."""
from __future__ import annotations

import multiprocessing
from multiprocessing.context import BaseContext
from typing import Generic

from ..._src.core.advice import warn
from ..._src.core.devices import Registry
from ..._src.core.platform import here
from .collate import default_collate, default_convert
from .datapipes.datapipe import IterDataPipe
from .dataset import IterableDataset, _T_co
from .graph_settings import apply_shuffle_settings
from .iterators import (_InfiniteConstantSampler, _MultiProcessingDataLoaderIter,
                        _SingleProcessDataLoaderIter)
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .workers import _DatasetKind, get_worker_info  # noqa: F401 - offered here

# attributes that samplers were made from
FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


def available_cores() -> int:
    """How many cores this process may use."""
    return here.processors()


class DataLoader(Generic[_T_co]):
    """Iterates over batches of a dataset."""

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
                 collate_fn=None, pin_memory=False, drop_last=False, timeout=0,
                 worker_init_fn=None, multiprocessing_context=None, generator=None, *, prefetch_factor=None,
                 persistent_workers=False, pin_memory_device="", in_order=True):
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing. let num_workers > 0 to enable "
                "multiprocessing, otherwise set prefetch_factor to None.")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        if shuffle is not None and isinstance(dataset, IterDataPipe):
            dataset, shuffle = apply_shuffle_settings(dataset, shuffle), None
        stream = isinstance(dataset, IterableDataset)
        for name, option in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
            if stream and option is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={option}")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
        if batch_size is None and batch_sampler is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        cores = available_cores()
        if num_workers > cores:
            warn(f"This DataLoader will create {num_workers} worker processes, but this process may use {cores} cores "
                 "only: excessive worker creation might get DataLoader running slow or "
                 f"even freeze. Give at most num_workers={cores}.")
        self.dataset, self.num_workers, self.timeout, self.worker_init_fn, self.generator = (dataset, num_workers,
                                                                                             timeout, worker_init_fn,
                                                                                             generator)
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        if pin_memory and Registry.present() is None:
            warn("'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't "
                 "be used.")
        self.pin_memory, self.persistent_workers, self.drop_last = pin_memory, persistent_workers, drop_last
        self.multiprocessing_context, self._iterator, self._IterableDataset_len_called, self.in_order = (
            multiprocessing_context, None, None, in_order)
        self._dataset_kind = _DatasetKind.Iterable if stream else _DatasetKind.Map
        if sampler is None:
            sampler = _InfiniteConstantSampler() if stream else RandomSampler(
                dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        self.sampler = sampler
        if batch_sampler is not None:
            self.batch_size = None
        else:
            self.batch_size = batch_size
            batch_sampler = BatchSampler(sampler, batch_size, drop_last) if batch_size is not None else None
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (default_collate if batch_sampler is not None else default_convert)

    def __setattr__(self, name, value):
        if name in FIXED and "collate_fn" in self.__dict__:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self):
        """Start method of worker processes; None for the platform's default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None:
            if self.num_workers == 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                    f"num_workers={self.num_workers}")
            if isinstance(context, str):
                valid = multiprocessing.get_all_start_methods()
                if context not in valid:
                    raise ValueError(
                        f"multiprocessing_context option should specify a valid start method in {valid!r}, but got "
                        f"multiprocessing_context={context!r}")
                context = multiprocessing.get_context(context)
            if not isinstance(context, BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string specifying the "
                    f"start method, but got multiprocessing_context={context}")
        self._context = context

    @property
    def _auto_collation(self) -> bool:
        """Whether samples are put together into batches."""
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        """Return the sampler of batches, or of samples without batches."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self):
        if isinstance(self.dataset, IterableDataset):
            length = self._IterableDataset_len_called = len(self.dataset)
            if self.batch_size is None:
                return length
            return length // self.batch_size if self.drop_last else -(-length // self.batch_size)
        return len(self._index_sampler)

    def _get_iterator(self):
        """A pass over all batches."""
        return _MultiProcessingDataLoaderIter(self) if self.num_workers else _SingleProcessDataLoaderIter(self)

    def __iter__(self):
        if not (self.persistent_workers and self.num_workers):
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def __getstate__(self):
        return {**self.__dict__, "_iterator": None}
