"""Worker processes of a DataLoader, and their pool."""
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

from ..._src import flat as torch
from .datapipes.datapipe import IterDataPipe, MapDataPipe
from .dataset import IterableDataset
from .graph_settings import apply_random_seed, apply_sharding
from .seeds import ranks

WATCH = 1.0  # seconds after which an idle worker looks whether the main process lives


@dataclass
class WorkerInfo:
    """Information on the current worker process."""

    id: int
    num_workers: int
    seed: int
    dataset: object


_worker_info = None


def get_worker_info():
    """The WorkerInfo in a worker process, None in the main process."""
    return _worker_info


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


class _DatasetKind:
    """Access to samples: by index, or from an iterator."""

    Map, Iterable = 0, 1

    @staticmethod
    def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last):
        """Return a function that makes batches of indices."""
        return Fetcher(dataset, collate_fn, auto_collation, drop_last, kind == _DatasetKind.Iterable)


class Fetcher:
    """Makes batches from indices (or from a stream)."""

    def __init__(self, dataset, collate, batched, drop_last, streams):
        self.dataset, self.collate, self.batched, self.drop_last = dataset, collate, batched, drop_last
        self.stream = iter(dataset) if streams else None

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


def is_stream(loader) -> bool:
    """Whether a loader takes its samples from one iterator, as its ``_dataset_kind`` says, which may be of any
    class."""
    return loader._dataset_kind == _DatasetKind.Iterable


def _generate_state(base_seed, worker_id) -> tuple:
    """The seed of NumPy's stream in a worker: four numbers of 32 bits."""
    return tuple(map(int, np.random.SeedSequence([worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0])
                     .generate_state(4)))


def work(number, count, seed, dataset, collate, batched, drop_last, streams, prepare, tasks, results, shares):
    """The life of a worker: batches for indices until a None comes, or the main process is gone.  Of data pipes it
    takes its part of what its rank takes, with ``shares`` = (ranks, rank)."""
    global _worker_info
    random.seed(seed + number)
    np.random.seed(_generate_state(seed, number))
    torch.manual_seed(seed + number)
    _worker_info = WorkerInfo(number, count, seed + number, dataset)
    failure, fetch, current, ancestor = None, None, None, os.getppid()
    try:
        try:
            if isinstance(dataset, (IterDataPipe, MapDataPipe)):
                apply_sharding(dataset, count * shares[0], number * shares[0] + shares[1])
            if prepare is not None:
                prepare(number)
        except Exception as error:
            failure = Failure(error, f"in DataLoader worker process {number}")
        for (epoch, shared), place, index in iter(lambda: next_task(tasks, ancestor), None):
            try:
                if failure is None and epoch != current:
                    if shared is not None:
                        apply_random_seed(dataset, torch.Generator().manual_seed(shared))
                    fetch, current = Fetcher(dataset, collate, batched, drop_last, streams), epoch
                answer = failure or fetch(index)
            except StopIteration:
                answer = StopIteration
            except Exception as error:
                answer = Failure(error, f"in DataLoader worker process {number}")
            results.put((epoch, place, number, answer))
    except KeyboardInterrupt:  # of the main process, which raises it
        results.cancel_join_thread()


def next_task(tasks, ancestor):
    """Return the next task from the main process; end this process if that one has ended."""
    while True:
        try:
            return tasks.get(timeout=WATCH)
        except queue.Empty:
            parent = multiprocessing.parent_process()
            if parent is not None and (not parent.is_alive() or os.getppid() != ancestor):
                os._exit(1)  # unread queue entries do not delay the exit


class Workers:
    """The worker processes of a DataLoader: they make batches of one epoch after the other until they are closed."""

    def __init__(self, loader, seed):
        context = loader.multiprocessing_context or multiprocessing.get_context(
            "fork" if "fork" in multiprocessing.get_all_start_methods() else None)
        context = multiprocessing.get_context(context) if isinstance(context, str) else context
        self.count, self.ahead, self.timeout, self.number = (loader.num_workers,
                                                             loader.prefetch_factor * loader.num_workers,
                                                             loader.timeout, 0)
        self.in_order = loader.in_order
        self.results = context.Queue()
        self.tasks = [context.Queue() for _ in range(self.count)]
        self.processes = [context.Process(target=work, daemon=True,
                                          args=(k, self.count, seed, loader.dataset, loader.collate_fn,
                                                loader._auto_collation, loader.drop_last, is_stream(loader),
                                                loader.worker_init_fn, self.tasks[k], self.results, ranks()))
                          for k in range(self.count)]
        for process in self.processes:
            process.start()
        self.finish = weakref.finalize(self, close, os.getpid(), self.processes, self.tasks)

    def alive(self) -> bool:
        return self.finish.alive and all(process.is_alive() for process in self.processes)

    def close(self):
        self.finish()

    def epoch(self, indices, shared=None):
        """Yields the batches of these indices (a Failure for one that could not be made), in their order unless the
        loader takes them as they come.  All workers seed their data pipes by the number ``shared``, so that they
        shuffle alike and take different parts.

        What is left of an epoch that was given up is thrown away.
        """
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
            self.tasks[worker].put(((self.number, shared), sent, index))
            sent += 1

        for _ in range(self.ahead):
            send()
        while wanted < sent:
            place = wanted if self.in_order else next(iter(ready), None)
            if place not in ready:
                epoch, place, number, answer = self.receive()
                if epoch == self.number:
                    ready[place] = answer
                    if answer is StopIteration:
                        alive.discard(number)
                continue
            answer = ready.pop(place)
            wanted += 1
            send()
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
                    raise RuntimeError(
                        f"DataLoader worker (pid(s) {', '.join(map(str, dead))}) exited unexpectedly") from None
                if self.timeout and time.monotonic() >= end:
                    raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds") from None


def close(owner, processes, tasks):
    """End workers: request it, and force it after a second; only by the process that started them."""
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
