"""Many threads that do different things at once and check every result.

``python -m tests.fuzz.threads [--threads 64] [--checks 100000] [--interval 1e-6] [--seed 0] [--only name ...]`` prints
how many checks were made and which failed.  What a thread computes depends on its number and a random stream of its
own, so that the result of another thread is a wrong one.
"""
from __future__ import annotations

import argparse
import faulthandler
import random
import sys
import threading
import time
import traceback

import rushlight as torch

JOBS = {}
LEAF = torch.ones(4, 4, requires_grad=True)
SHARED = torch.arange(12.0).reshape(3, 4)
NETWORK = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Dropout(0.5),
                              torch.nn.Linear(3, 1)).eval()


def job(function):
    JOBS[function.__name__] = function
    return function


def equal(found, wanted):
    assert found == wanted, (found, wanted)


@job
def sums(k, rng):
    rows, columns = rng.randrange(1, 40), rng.randrange(1, 40)  # sizes that other threads meet at the same time
    x = torch.full((rows, columns), float(k + 1))
    equal((x * 2 + 1).sum(0).tolist(), [rows * (2.0 * (k + 1) + 1)] * columns)


@job
def without_recording(k, rng):
    with torch.no_grad():
        y = LEAF * (k + 1)
        assert not y.requires_grad and not torch.is_grad_enabled()
        with torch.enable_grad():
            assert (LEAF * 2).requires_grad
        assert not (LEAF @ LEAF).requires_grad
    assert torch.is_grad_enabled()
    equal(y.tolist(), [[k + 1.0] * 4] * 4)


@job
def recording(k, rng):
    y = LEAF * (k + 1)
    assert y.requires_grad and (y @ y).requires_grad and not y.is_inference()


@job
def inference(k, rng):
    with torch.inference_mode():
        y = torch.ones(3) * (k + 1)
        assert y.is_inference() and not (LEAF * 2).requires_grad
    assert not (torch.ones(3) * 2).is_inference() and (LEAF * 2).requires_grad


@job
def precision(k, rng):
    with torch.autocast("cpu", dtype=torch.float16 if k % 2 else torch.bfloat16):
        y = LEAF @ LEAF
        assert y.dtype is (torch.float16 if k % 2 else torch.bfloat16), y.dtype
    assert (LEAF @ LEAF).dtype is torch.float32
    equal(y.float().tolist(), [[4.0] * 4] * 4)


@job
def mapped(k, rng):
    equal(torch.func.vmap(lambda q: q * q + q.sum())(torch.full((3, 4), k + 1.0)).tolist(),
          [[(k + 1.0) ** 2 + 4 * (k + 1)] * 4] * 3)


@job
def gradients(k, rng):
    equal(torch.func.grad(lambda q: (q * q).sum())(torch.full((4,), k + 1.0)).tolist(), [2.0 * (k + 1)] * 4)


@job
def mapped_gradients(k, rng):
    equal(torch.func.vmap(torch.func.grad(lambda q: (q * q).sum()))(SHARED + k).tolist(), (2 * (SHARED + k)).tolist())


@job
def tangents(k, rng):
    equal(torch.func.jvp(lambda q: q * q, (torch.full((3,), k + 1.0),), (torch.ones(3),))[1].tolist(),
          [2.0 * (k + 1)] * 3)


@job
def backward(k, rng):
    x = torch.full((rng.randrange(1, 20),), k + 1.0, requires_grad=True)
    y = x * x
    seen = []
    y.register_hook(lambda g: seen.append(torch.is_grad_enabled()))
    (y * 3).sum().backward()
    equal(x.grad.tolist(), [6.0 * (k + 1)] * len(x))
    equal(seen, [False])


@job
def backward_of_a_shared_graph(k, rng):
    """Steps that several passes run at once keep what each of them knows."""
    y = trunk()
    found, = torch.autograd.grad((y * (k + 1)).sum(), [trunk.leaf], retain_graph=True)
    equal(found.tolist(), [2.0 * (k + 1)] * 8)


def trunk():
    """The same results for all, with history."""
    return trunk.value


trunk.leaf = torch.ones(8, requires_grad=True)
trunk.value = (trunk.leaf.clone() * 1.0 + trunk.leaf).view(2, 4)


@job
def second_derivatives(k, rng):
    x = torch.full((3,), k + 1.0, requires_grad=True)
    first, = torch.autograd.grad((x * x * x).sum(), [x], create_graph=True)
    assert first.requires_grad
    second, = torch.autograd.grad(first.sum(), [x])
    equal(second.tolist(), [6.0 * (k + 1)] * 3)


@torch.compile
def compiled_function(x, scale):
    return (x * scale).sum() if torch.is_grad_enabled() else (x * scale).sum() + 1


@job
def compiled(k, rng):
    x = torch.full((4,), k + 1.0)
    equal(compiled_function(x, 2.0).item(), 8.0 * (k + 1))
    with torch.no_grad():
        equal(compiled_function(x, 2.0).item(), 8.0 * (k + 1) + 1)


@torch.compile
def compiled_loss(x, w):
    return ((x @ w) * 2).sum()


@job
def compiled_gradients(k, rng):
    w = torch.full((4, 2), 1.0, requires_grad=True)
    compiled_loss(torch.full((3, 4), k + 1.0), w).backward()
    equal(w.grad.tolist(), [[6.0 * (k + 1)] * 2] * 4)


@job
def devices(k, rng):
    with torch.device("meta"):
        assert torch.ones(2, k + 1).is_meta and torch.get_default_device().type == "meta"
    assert torch.ones(2).device.type == "cpu"
    if k % 2:
        torch.set_default_device("meta")
        try:
            assert torch.zeros(3).is_meta
        finally:
            torch.set_default_device("cpu")


class Doubling(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {})) * 2


@job
def modes(k, rng):
    x = torch.full((2,), k + 1.0)
    with Doubling():
        y = torch.exp(x * 0)
    equal((y.tolist(), torch.exp(x * 0).tolist()), ([2.0 * 1.0] * 2, [1.0] * 2))


@job
def hooks_on_saved_tensors(k, rng):
    x, seen = torch.full((2,), k + 1.0, requires_grad=True), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t.tolist()) or t, lambda t: t):
        y = x * x
    y.sum().backward()
    equal(x.grad.tolist(), [2.0 * (k + 1)] * 2)
    assert seen and all(one == [k + 1.0] * 2 for one in seen), seen


@job
def networks(k, rng):
    x = torch.full((2, 4), float(k))
    equal(NETWORK(x).tolist(), NETWORK(x).tolist())


@job
def views_and_writes(k, rng):
    x = torch.zeros(5, 6)
    x[1:3].t().add_(k + 1)
    equal(x.sum().item(), 12.0 * (k + 1))
    equal(x[rng.randrange(1, 3), 2:].tolist(), [k + 1.0] * 4)


@job
def draws(k, rng):
    """Two threads draw no number twice, and a backward pass reads the mask that its forward pass drew."""
    x = torch.ones(64, requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.5)
    y.sum().backward()
    equal(x.grad.tolist(), y.tolist())
    streams = torch.Generator().manual_seed(k)
    equal(torch.rand(5, generator=streams).tolist(), torch.rand(5, generator=torch.Generator().manual_seed(k)).tolist())


@job
def numbers_that_differ(k, rng):
    low = rng.choice((-0.0, 0.0, float(k)))
    x = torch.full((3,), -1.0)
    equal([str(v) for v in torch.clamp(x, min=low).tolist()], [str(low)] * 3)


def run(threads=64, checks=10000, interval=1e-6, seed=0, only=(), seconds=None):
    """The number of checks that were made, and what went wrong (at most one thing a thread)."""
    names = list(only or JOBS)
    wrong, made, ended = [], [0] * threads, threading.Event()
    end = time.monotonic() + seconds if seconds else None

    def work(k):
        rng = random.Random(seed * 1000 + k)
        while not ended.is_set() and sum(made) < checks and (end is None or time.monotonic() < end):
            name = rng.choice(names)
            try:
                JOBS[name](k, rng)
            except BaseException:
                wrong.append((name, k, traceback.format_exc()))
                return
            made[k] += 1

    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        ended.set()
        sys.setswitchinterval(before)
    return sum(made), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--checks", type=int, default=100000)
    parser.add_argument("--interval", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--only", nargs="*", default=())
    given = parser.parse_args()
    faulthandler.enable()
    faulthandler.dump_traceback_later(900 if given.seconds is None else given.seconds + 300, exit=True)
    started = time.monotonic()
    made, wrong = run(given.threads, given.checks, given.interval, given.seed, given.only, given.seconds)
    for name, k, text in wrong[:5]:
        print(f"--- {name} in thread {k}\n{text}")
    print(f"{made} checks by {given.threads} threads at a switch interval of {given.interval:g} s in "
          f"{time.monotonic() - started:.0f} s: {len(wrong)} wrong "
          f"{sorted({name for name, _, _ in wrong})}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
