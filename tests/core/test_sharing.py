"""Memory that processes share: what a child writes its parent sees, however the child was started and the tensor handed
over."""
import multiprocessing
import os

import pytest

import rushlight as torch
from rushlight import multiprocessing as handing
from rushlight._src.core import sharing


def writes(tensor, value):
    tensor.fill_(value)


def answers(given, answer):
    tensor = given.get()
    tensor.mul_(2)
    answer.put(tensor[1:])
    given.get()  # whoever hands memory over stays until it has been taken


def test_a_forked_child_writes():
    x = torch.zeros(3, 4).share_memory_()
    view, plain = x[1:], torch.zeros(2)
    assert x.is_shared() and view.is_shared() and x.untyped_storage().is_shared() and not plain.is_shared()
    child = os.fork()
    if not child:
        x.fill_(7)
        plain.fill_(7)
        os._exit(0)
    os.waitpid(child, 0)
    assert x.tolist() == [[7.0] * 4] * 3 and view.tolist() == x[1:].tolist() and plain.tolist() == [0, 0]


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_processes_that_are_given_tensors(how):
    context = multiprocessing.get_context(how)
    x, parameter = torch.arange(6.0)[2:].share_memory_(), torch.nn.Parameter(torch.zeros(2)).share_memory_()
    child = context.Process(target=writes, args=(x, 5))
    child.start()
    child.join()
    assert child.exitcode == 0 and x.tolist() == [5.0] * 4
    assert type(parameter) is torch.nn.Parameter and parameter.is_shared() and parameter.requires_grad


def test_tensors_through_queues():
    context = handing.get_context("fork")
    given, answer = context.Queue(), context.Queue()
    child = context.Process(target=answers, args=(given, answer))
    child.start()
    x = torch.arange(4.0).share_memory_()
    given.put(x)
    found = answer.get(timeout=600)
    given.put(None)
    child.join()
    assert found.tolist() == [2, 4, 6] and x.tolist() == [0, 2, 4, 6]
    found.zero_()
    assert x.tolist() == [0, 0, 0, 0]
    with pytest.raises(RuntimeError, match="detach"):
        multiprocessing.reduction.ForkingPickler.dumps(torch.ones(2, requires_grad=True) * 2)


@pytest.mark.parametrize("through", ["queue", "arguments"])
def test_what_the_main_process_hands_over_is_shared_from_then_on(through):
    context = handing.get_context("spawn")
    x, queue = torch.zeros(3), context.Queue()
    child = context.Process(target=taken, args=(queue, 4) if through == "queue" else (x, 4))
    child.start()
    if through == "queue":
        queue.put(x)
    child.join()
    assert child.exitcode == 0 and x.is_shared() and x.tolist() == [4.0] * 3


def test_more_tensors_than_files_are_copied(monkeypatch):
    monkeypatch.setattr(sharing.Shared, "living", 1 << 30)
    x = torch.ones(2)
    with pytest.warns(UserWarning, match="ulimit"):
        kept = multiprocessing.reduction.ForkingPickler.dumps(x)
    assert not x.is_shared() and multiprocessing.reduction.ForkingPickler.loads(kept).tolist() == [1, 1]


def taken(given, value):
    (given if isinstance(given, torch.Tensor) else given.get()).fill_(value)


def test_what_shows_the_memory_from_before_stays_valid():
    x = torch.arange(1000.0)
    array, part = x.numpy(), x.untyped_storage()[:8]
    x.share_memory_()
    x.zero_()
    assert array[5] == 5 and len(part) == 8 and not x.any()
    module = torch.nn.Linear(3, 3).share_memory()
    assert all(p.is_shared() for p in module.parameters())
    (module(torch.ones(3)).sum()).backward()
    assert module.weight.grad is not None and torch.empty(0).share_memory_().is_shared()
