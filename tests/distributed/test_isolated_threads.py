"""Threads that stand for processes without being asked: each has a world of its own, as PyTorch's tests want it."""
import threading

import pytest
import torch as judge

import rushlight as torch
from rushlight import distributed as dist


@pytest.fixture
def isolated():
    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    yield
    torch._C._distributed_c10d._set_thread_isolation_mode(False)


def ranks(size: int) -> list:
    """What each of several threads finds that make a group."""
    store, found = dist.HashStore(), {}

    def live(rank):
        before = dist.is_initialized()
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
        x = torch.tensor([float(rank + 1)])
        dist.all_reduce(x)
        pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        found[rank] = before, dist.get_rank(), x.item(), dist.get_process_group_ranks(pairs[rank // 2])
        dist.destroy_process_group()

    threads = [threading.Thread(target=live, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found.get(rank) for rank in range(size)]


def test_threads_have_worlds(isolated):
    assert ranks(4) == [(False, rank, 10., [[0, 1], [2, 3]][rank // 2]) for rank in range(4)]
    assert not dist.is_initialized()


def test_the_calling_thread_keeps_its_world():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        torch._C._distributed_c10d._set_thread_isolation_mode(True)
        assert dist.is_initialized() and ranks(4)[3][1] == 3
    finally:
        torch._C._distributed_c10d._set_thread_isolation_mode(False)
        dist.destroy_process_group()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(dist.is_initialized()))
    thread.start()
    thread.join()
    assert seen == [False]


def test_threads_of_backward_passes():
    def run(library):
        asked, set_to = library._C._is_multithreading_enabled, library.autograd.set_multithreading_enabled
        found = [asked()]
        with set_to(False):
            found.append(asked())
            with set_to(True):
                found.append(asked())
            found.append(asked())
        found.append(asked())
        decorated = set_to(False)(asked)
        found += [asked(), decorated(), decorated(), asked()]
        set_to(False)
        found.append(asked())
        set_to(True)
        return found
    assert run(torch) == run(judge)
