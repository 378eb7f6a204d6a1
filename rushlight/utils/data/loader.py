"""DataLoader: batches of a dataset, made here or by worker processes."""
from __future__ import annotations

import itertools
import multiprocessing
import os
import queue
import random
import time
import traceback
import weakref
from dataclasses import dataclass

import numpy as np

from ...core.advice import warn
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler


FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")  # attributes that samplers were made from
WATCH = 1.0  # seconds after which an idle worker looks whether the main process lives


@dataclass
class WorkerInfo:
    """What a worker process knows of itself."""

    id: int
    num_workers: int
    seed: int
    dataset: object


_worker_info = None


def get_worker_info():
    """The WorkerInfo in a worker process, None in the main process."""
    return _worker_info


class Endless:
    """Indices for a stream, which has none."""

    def __iter__(self):
        return itertools.repeat(None)


class Failure:
    """An exception raised in a worker."""

    def __init__(self, error, where):
        self.kind, self.text = type(error), f"Caught {type(error).__name__} {where}.\nOriginal {traceback.format_exc()}"

    def reraise(self):
        try:
            error = self.kind(self.text)
        except TypeError:
            error = RuntimeError(self.text)
        raise error


class Fetcher:
    """Makes batches from indices (or from a stream)."""

    def __init__(self, dataset, collate, batched, drop_last):
        self.dataset, self.collate, self.batched, self.drop_last = dataset, collate, batched, drop_last
        self.stream = iter(dataset) if isinstance(dataset, IterableDataset) else None

    def __call__(self, index):
        if self.stream is not None:
            if not self.batched:
                return self.collate(next(self.stream))
            samples = list(itertools.islice(self.stream, len(index)))
            if not samples or (self.drop_last and len(samples) < len(index)):
                raise StopIteration
            return self.collate(samples)
        if not self.batched:
            return self.collate(self.dataset[index])
        if hasattr(self.dataset, "__getitems__"):
            return self.collate(self.dataset.__getitems__(index))
        return self.collate([self.dataset[k] for k in index])


def work(number, count, seed, dataset, collate, batched, drop_last, prepare, tasks, results):
    """The life of a worker: batches for indices until a None comes, or the main process is gone."""
    global _worker_info
    import rushlight

    random.seed(seed + number)
    np.random.seed((seed + number) % (1 << 32))
    rushlight.manual_seed(seed + number)
    _worker_info = WorkerInfo(number, count, seed + number, dataset)
    failure, fetch, current, ancestor = None, None, None, os.getppid()
    try:
        try:
            if prepare is not None:
                prepare(number)
        except Exception as error:
            failure = Failure(error, f"in DataLoader worker process {number}")
        for epoch, place, index in iter(lambda: next_task(tasks, ancestor), None):
            try:
                if failure is None and epoch != current:
                    fetch, current = Fetcher(dataset, collate, batched, drop_last), epoch
                answer = failure or fetch(index)
            except StopIteration:
                answer = StopIteration
            except Exception as error:
                answer = Failure(error, f"in DataLoader worker process {number}")
            results.put((epoch, place, number, answer))
    except KeyboardInterrupt:  # of the main process, which raises it
        results.cancel_join_thread()


def next_task(tasks, ancestor):
    """What the main process asks for next; ends this process when that one is gone, however it ended."""
    while True:
        try:
            return tasks.get(timeout=WATCH)
        except queue.Empty:
            parent = multiprocessing.parent_process()
            if parent is not None and (not parent.is_alive() or os.getppid() != ancestor):
                os._exit(1)  # what is left in the queues nobody reads


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class DataLoader:
    """Iterates over batches of a dataset."""

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None, pin_memory=False, drop_last=False, timeout=0,
                 worker_init_fn=None, multiprocessing_context=None, generator=None, *, prefetch_factor=None, persistent_workers=False, pin_memory_device="", in_order=True):
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing. let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None.")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        stream = isinstance(dataset, IterableDataset)
        if stream and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader with IterableDataset: expected unspecified shuffle, sampler and batch_sampler options")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
        if batch_size is None and batch_sampler is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        cores = available_cores()
        if num_workers > cores:
            warn(f"This DataLoader will create {num_workers} worker processes, but this process may use {cores} cores only: more workers than cores slow it down, or stop it. "
                 f"Give at most num_workers={cores}.")
        self.dataset, self.num_workers, self.timeout, self.worker_init_fn, self.generator = dataset, num_workers, timeout, worker_init_fn, generator
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        if pin_memory:
            warn("'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.")
        self.pin_memory, self.persistent_workers, self.drop_last = pin_memory, persistent_workers, drop_last
        self.multiprocessing_context, self._workers = multiprocessing_context, None
        if sampler is None:
            sampler = Endless() if stream else RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
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
    def _batched(self):
        return self.batch_sampler is not None

    def __len__(self):
        if isinstance(self.dataset, IterableDataset):
            length = len(self.dataset)
            if self.batch_size is None:
                return length
            return length // self.batch_size if self.drop_last else -(-length // self.batch_size)
        return len(self.batch_sampler if self._batched else self.sampler)

    def __iter__(self):
        if not self.num_workers:
            return self._here(iter(self.batch_sampler if self._batched else self.sampler))
        return self._by_workers()

    def _here(self, indices):
        fetch = Fetcher(self.dataset, self.collate_fn, self._batched, self.drop_last)
        for index in indices:
            try:
                batch = fetch(index)
            except StopIteration:
                return
            yield batch

    def _by_workers(self):
        workers = self._workers
        if workers is None or not workers.alive():
            workers = Workers(self)
        if self.persistent_workers:
            self._workers = workers
        try:
            yield from workers.epoch(iter(self.batch_sampler if self._batched else self.sampler))
        finally:
            if not self.persistent_workers:
                workers.close()

    def __getstate__(self):
        return {**self.__dict__, "_workers": None}


class Workers:
    """The worker processes of a DataLoader: they make batches of one epoch after the other until they are closed."""

    def __init__(self, loader):
        import rushlight

        context = loader.multiprocessing_context or multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else None)
        context = multiprocessing.get_context(context) if isinstance(context, str) else context
        seed = int(rushlight.randint(1 << 30, (), generator=loader.generator).item()) if loader.generator is not None else int(rushlight.randint(1 << 30, ()).item())
        self.count, self.ahead, self.timeout, self.number = loader.num_workers, loader.prefetch_factor * loader.num_workers, loader.timeout, 0
        self.results = context.Queue()
        self.tasks = [context.Queue() for _ in range(self.count)]
        self.processes = [context.Process(target=work, daemon=True, args=(k, self.count, seed, loader.dataset, loader.collate_fn, loader._batched, loader.drop_last,
                                                                          loader.worker_init_fn, self.tasks[k], self.results)) for k in range(self.count)]
        for process in self.processes:
            process.start()
        self.finish = weakref.finalize(self, close, os.getpid(), self.processes, self.tasks)

    def alive(self) -> bool:
        return self.finish.alive and all(process.is_alive() for process in self.processes)

    def close(self):
        self.finish()

    def epoch(self, indices):
        """Yields the batches of these indices, in their order; what is left of an epoch that was given up is thrown away."""
        self.number += 1
        alive, ready, sent, wanted = set(range(self.count)), {}, 0, 0
        turn = itertools.cycle(range(self.count))

        def send():
            nonlocal sent
            if not alive:
                return
            try:
                index = next(indices)
            except StopIteration:
                return
            worker = next(k for k in turn if k in alive)
            self.tasks[worker].put((self.number, sent, index))
            sent += 1

        for _ in range(self.ahead):
            send()
        while wanted < sent:
            if wanted not in ready:
                epoch, place, number, answer = self.receive()
                if epoch == self.number:
                    ready[place] = answer
                    if answer is StopIteration:
                        alive.discard(number)
                continue
            answer = ready.pop(wanted)
            wanted += 1
            send()
            if isinstance(answer, Failure):
                answer.reraise()
            if answer is not StopIteration:
                yield answer

    def receive(self):
        end = time.monotonic() + self.timeout
        while True:
            try:
                return self.results.get(timeout=min(WATCH, self.timeout or WATCH))
            except queue.Empty:
                dead = [process.pid for process in self.processes if not process.is_alive()]
                if dead:
                    raise RuntimeError(f"DataLoader worker (pid(s) {', '.join(map(str, dead))}) exited unexpectedly") from None
                if self.timeout and time.monotonic() >= end:
                    raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds") from None


def close(owner, processes, tasks):
    """Ends workers: they are asked, and after a second made to; by the process that started them alone."""
    if os.getpid() != owner:
        return
    for task in tasks:
        task.put(None)
    end = time.monotonic() + 1
    for process in processes:
        process.join(timeout=max(0, end - time.monotonic()))
        if process.is_alive():
            process.terminate()
            process.join()
    for task in tasks:
        task.cancel_join_thread()
        task.close()
