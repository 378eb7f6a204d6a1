"""One pass over a DataLoader: batches made here, or by worker processes."""
from __future__ import annotations

import itertools

from ..._src import flat as torch
from ..._src.core.advice import warn
from ..._src.core.devices import Registry
from .datapipes.datapipe import IterDataPipe, MapDataPipe
from .collate import pinned
from .graph_settings import apply_random_seed, apply_sharding
from .seeds import base_seed, ranks, shared_seed
from .workers import Failure, Fetcher, Workers, is_stream


class _BaseDataLoaderIter:
    """Base of iterations: ``next(pass)`` is a batch, until StopIteration."""

    def __init__(self, loader):
        self._dataset, self._num_workers, self._timeout = loader.dataset, loader.num_workers, loader.timeout
        self._auto_collation, self._drop_last, self._collate_fn = (loader._auto_collation, loader.drop_last,
                                                                   loader.collate_fn)
        self._index_sampler, self._persistent_workers = loader._index_sampler, loader.persistent_workers
        self._pin_memory = loader.pin_memory and Registry.present() is not None
        self._reset(loader, first_iter=True)

    def _reset(self, loader, first_iter=False):
        """Begin a pass: restart the sampler, and draw a seed from the loader's generator."""
        self._sampler_iter, self._num_yielded, self._length = iter(
            self._index_sampler), 0, loader._IterableDataset_len_called
        self._base_seed = base_seed(loader.generator)
        self._shared_seed = None
        if isinstance(loader.dataset, IterDataPipe):
            self._shared_seed = shared_seed(loader.generator)
            apply_random_seed(loader.dataset, torch.Generator().manual_seed(self._shared_seed))

    def __iter__(self):
        return self

    def _next_index(self):
        return next(self._sampler_iter)

    def _next_data(self):
        raise NotImplementedError

    def __next__(self):
        found = self._next_data()
        self._num_yielded += 1
        if self._length is not None and self._num_yielded > self._length:
            warn(f"Length of IterableDataset {self._dataset} was reported to be {self._length} (when accessing "
                 f"len(dataloader)), but {self._num_yielded} samples have been fetched: "
                 "its __len__ is wrong, or each worker takes all of the stream (get_worker_info() tells which part is "
                 "its).")
        return pinned(found) if self._pin_memory else found

    def __len__(self):
        return len(self._index_sampler)

    def __getstate__(self):
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """A pass whose batches are made here."""

    def __init__(self, loader):
        super().__init__(loader)
        if self._timeout != 0 or self._num_workers != 0:
            raise AssertionError("a pass without workers has no timeout")
        if isinstance(self._dataset, (IterDataPipe, MapDataPipe)):
            apply_sharding(self._dataset, *ranks())
        self._dataset_fetcher = Fetcher(self._dataset, self._collate_fn, self._auto_collation, self._drop_last,
                                        is_stream(loader))

    def _next_data(self):
        return self._dataset_fetcher(self._next_index())


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """A pass whose batches are made by worker processes, which end with it unless the loader says that they persist."""

    def __init__(self, loader):
        if loader.num_workers <= 0 or loader.prefetch_factor <= 0:
            raise AssertionError("expected num_workers > 0 and prefetch_factor > 0")
        self._pool = None
        super().__init__(loader)

    def _reset(self, loader, first_iter=False):
        super()._reset(loader, first_iter)
        if self._pool is None or not self._pool.alive():
            self._pool = Workers(loader, self._base_seed)
        self._batches = self._pool.epoch(self._sampler_iter, self._shared_seed)

    @property
    def _workers(self) -> list:
        """The processes."""
        return self._pool.processes

    def _next_data(self):
        try:
            found = next(self._batches)
        except BaseException:
            if not self._persistent_workers:
                self._shutdown_workers()
            raise
        if isinstance(found, Failure):
            found.reraise()
        return found

    def _shutdown_workers(self):
        """Ends the processes."""
        self._pool.close()


class _InfiniteConstantSampler:
    """Indices for a stream, which has none."""

    def __iter__(self):
        return itertools.repeat(None)
