"""A world of threads: each acts as a process, has a rank and groups of its own, and communicates with the others.  For
tests without processes."""
from __future__ import annotations

import datetime
import functools
import threading

from .._src.core.random import default_generator
from .._src.core.settings import settings
from .membership import _abort_process_group, destroy_process_group, init_process_group
from .stores import HashStore
from .worlds import OF_THREAD, PROCESS, World

PATIENCE = datetime.timedelta(minutes=10)


def run(world_size: int, function, *args, timeout=PATIENCE, backend: str = "gloo") -> list:
    """Return the results of ``function(rank, *args)`` in ``world_size`` threads, which form a group; it may call all of
    ``torch.distributed``.  Each thread has a default random stream of its own, a copy of the caller's.

    If it raises in a thread, the others' collectives fail, and the first error is raised here.

    >>> import rushlight as torch
    >>> from rushlight import distributed as dist
    >>> def total(rank):
    ...     x = torch.tensor([float(rank + 1)])
    ...     dist.all_reduce(x)
    ...     return x.item()
    >>> run(3, total)
    [6.0, 6.0, 6.0]
    """
    store, results, errors = HashStore(), [None] * world_size, []
    store.set_timeout(timeout)
    place = default_generator.place  # processes that are forked have copies of it
    overrides = settings.overrides.values  # processes inherit the environment; these threads, the caller's settings

    def live(rank: int):
        World(place).enter()
        try:
            with settings.set(**overrides):
                init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=timeout)
                results[rank] = function(rank, *args)
                if OF_THREAD.world.default is not None:
                    destroy_process_group()
        except BaseException as error:  # noqa: BLE001 - raised where the threads are joined
            errors.append(error)
            if OF_THREAD.world.default is not None:
                _abort_process_group()
        finally:
            PROCESS.enter()

    threads = [threading.Thread(target=live, args=(rank,), name=f"rank {rank}") for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def spawn_threads_and_init_comms(func=None, timeout: float = 300, world_size: int = 4):
    """Decorates a test: it runs in each of ``world_size`` threads, which form a group (``run``); ``timeout`` in
    seconds.  The first error of a thread is raised.

    >>> from rushlight import distributed as dist
    >>> @spawn_threads_and_init_comms(world_size=2)
    ... def test(seen):
    ...     seen.append(dist.get_world_size())
    >>> seen = []
    >>> test(seen)
    >>> seen
    [2, 2]
    """
    if func is None:
        return functools.partial(spawn_threads_and_init_comms, timeout=timeout, world_size=world_size)

    @functools.wraps(func)
    def everywhere(*args, **kwargs):
        run(world_size, lambda rank: func(*args, **kwargs), timeout=datetime.timedelta(seconds=timeout))

    return everywhere
