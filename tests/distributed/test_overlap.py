"""Collectives within compiled programs start early and are waited for late, in one order, on memory that stays."""
import datetime
import threading

import pytest

import rushlight as torch
import rushlight.distributed._functional_collectives as functional
from rushlight import distributed as dist
from rushlight.distributed import carrier, threads
from rushlight.distributed.works import Work

N = 96  # N x N floats are more than what is exchanged at once


def products(x, w, count=4):
    for _ in range(count):
        x = x @ w
    return x


def reduced(x, w, group):
    return functional.all_reduce(x * 2, "sum", group) + 1, products(w, w)


def gathered(x, w, group):
    return functional.all_gather_tensor(x * 2, 0, group) + 1, products(w, w)


def scattered(x, w, group):
    return functional.reduce_scatter_tensor(x * 2, "avg", 0, group) + 1, products(w, w)


def swapped(x, w, group):
    return functional.all_to_all_single(x * 2, None, None, group) + 1, products(w, w)


def told(x, w, group):
    return functional.broadcast(x * 2, 1, group) + 1, products(w, w)


def chain(x, w, group):
    """Each collective reads the result of the one before; matmuls run concurrently."""
    first = functional.all_reduce(x @ w, "sum", group)
    beside = products(w, w, 2)
    second = functional.all_gather_tensor(first @ w, 0, group)
    third = functional.reduce_scatter_tensor(second * 2, "sum", 0, group)
    return third @ beside, products(beside, w, 2)


def several(x, w, group):
    parts = [functional.all_reduce(x * k, "sum", group) for k in range(1, 5)]
    beside = products(w, w)
    return sum(parts) @ w, beside


def layers(x, w, group):
    for _ in range(10):
        x = functional.all_reduce(torch.tanh(x @ w), "avg", group) + w @ x
    return (x,)


def written_over(x, w, group):
    """The input of a collective is overwritten before its result is read."""
    x = x.clone()
    y = functional.all_gather_tensor(x, 0, group)
    x.mul_(0)
    z = products(w, w)
    x.add_(z)
    return y * 2, x, z


def halves(x, w, group):
    x, w = x.bfloat16(), w.bfloat16()
    return functional.all_reduce(x, "sum", group) * 2, functional.all_gather_tensor(w, 0, group), products(w, w)


PROGRAMS = (reduced, gathered, scattered, swapped, told, chain, several, layers, written_over, halves)


def given(rank):
    numbers = torch.Generator().manual_seed(rank)
    return torch.randn(N, N, generator=numbers), torch.randn(N, N, generator=numbers) / 10


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("program", PROGRAMS)
def test_results_and_gradients_are_those_of_eager_calls(program, size):
    compiled = torch.compile(program, fullgraph=True)

    def member(rank):
        found = []
        for run in (program, compiled, compiled):
            x, w = (t.requires_grad_(program is not halves) for t in given(rank))
            results = run(x, w, dist.group.WORLD.group_name)
            gradients = []
            if program is not halves:
                gradients = torch.autograd.grad(sum((y * y).sum() for y in results), (x, w))
            found.append([t.detach() for t in (*results, *gradients)])
        return found
    for plain, first, again in threads.run(size, member):
        count = 2 if program is not halves else 0  # gradients: sums of products may be in another order
        for a, b, c in list(zip(plain, first, again))[:len(plain) - count]:
            assert torch.equal(a, b) and torch.equal(a, c)
        for a, b, c in list(zip(plain, first, again))[len(plain) - count:]:
            assert torch.equal(b, c)
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3 * float(a.abs().max()))
    assert not carrier.flights


class Watch:
    """What each thread of a world begins and finishes, in order."""

    def __init__(self, monkeypatch):
        self.of_thread = threading.local()
        begin, finish, carry = carrier.begin, carrier.finish, carrier.carry

        def begun(what, array, *rest):
            number = begin(what, array, *rest)
            self.log.append(("start", what, array.shape))
            return number

        def finished(number):
            made = finish(number)
            self.log.append(("end", None, made.shape))
            return made

        def carried(what, array, *rest):
            self.log.append(("whole", what, array.shape))
            return carry(what, array, *rest)

        for name, function in (("begin", begun), ("finish", finished), ("carry", carried)):
            monkeypatch.setattr(carrier, name, function)

    @property
    def log(self):
        return vars(self.of_thread).setdefault("log", [])

    def taken(self):
        found = list(self.log)
        self.log.clear()
        return found


@pytest.mark.parametrize("program", [chain, several, layers, halves])
def test_the_order_is_that_of_the_program_in_all_ranks(program, monkeypatch):
    watch, compiled = Watch(monkeypatch), torch.compile(program, fullgraph=True)

    def member(rank):
        group, logs = dist.group.WORLD.group_name, []
        for run in (program, compiled):
            run(*given(rank), group)
            logs.append(watch.taken())
        return logs
    found = threads.run(3, member)
    plain = [(what, shape) for _, what, shape in found[0][0]]
    for _, log in found:
        assert log == found[0][1]
        assert [(what, shape) for kind, what, shape in log if kind != "end"] == plain
    assert any(kind == "start" for kind, _, _ in found[0][1])


def test_what_waits_for_nothing_starts_at_once_and_ends_behind_the_products(monkeypatch):
    watch, compiled = Watch(monkeypatch), torch.compile(several, fullgraph=True)

    def member(rank):
        compiled(*given(rank), dist.group.WORLD.group_name)
        return [kind for kind, _, _ in watch.taken()]
    assert threads.run(2, member) == [["start"] * 4 + ["end"] * 4] * 2


@pytest.mark.parametrize("program", [
    lambda x, w, group: (functional.all_reduce(x @ w, "sum", group) @ w,),  # nothing lies beside it
    lambda x, w, group: (functional.all_reduce(x[0], "sum", group), products(w, w)),  # small
])
def test_what_gains_nothing_stays_one_step(program, monkeypatch):
    watch, compiled = Watch(monkeypatch), torch.compile(program, fullgraph=True)

    def member(rank):
        compiled(*given(rank), dist.group.WORLD.group_name)
        return [kind for kind, _, _ in watch.taken()]
    assert threads.run(2, member) == [["whole"]] * 2


@pytest.mark.parametrize("program", [gathered, scattered, swapped, told, several, written_over])
def test_memory_that_is_read_stays_as_it_is_until_the_end(program, monkeypatch):
    """Nothing is read before a program waits for it; were the memory of an input given to another value meanwhile, that
    one would be sent."""
    finish, gates, compiled = carrier.finish, threading.local(), torch.compile(program, fullgraph=True)

    def finished(number):
        gates.open.set()
        return finish(number)
    monkeypatch.setattr(carrier, "finish", finished)

    def member(rank):
        group, gates.open = dist.group.WORLD, threading.Event()
        expected = program(*given(rank), group.group_name)
        opened = gates.open
        held = group.line.submit(Work(None, opened.wait))
        found = compiled(*given(rank), group.group_name)
        held.wait()
        return all(map(torch.equal, found, expected))
    assert threads.run(2, member) == [True] * 2


def test_errors_are_raised_where_it_is_waited_for():
    compiled = torch.compile(lambda x, w, group: (functional.all_reduce(x, "most", group) * 2, products(w, w)),
                             fullgraph=True)

    def member(rank):
        with pytest.raises(RuntimeError, match="unknown reduction 'most'"):
            compiled(*given(rank), dist.group.WORLD.group_name)
        return compiled is not None
    assert threads.run(2, member) == [True] * 2
    assert not carrier.flights


def test_within_a_coalescing_block():
    """Results are there at once, those of functions that write into tensors at the end of the block."""
    compiled = torch.compile(gathered, fullgraph=True)

    def member(rank):
        group, total = dist.group.WORLD, torch.ones(N * N)
        expected = gathered(*given(rank), group.group_name)
        with dist._coalescing_manager(group):
            dist.all_reduce(total)
            found = [*compiled(*given(rank), group.group_name), *gathered(*given(rank), group.group_name)]
        return all(map(torch.equal, found, (*expected, *expected))) and total.sum().item() == 2 * N * N
    assert threads.run(2, member) == [True] * 2


def test_a_rank_that_does_not_come_is_an_error_of_the_wait():
    compiled, over = torch.compile(gathered, fullgraph=True), threading.Event()

    def member(rank):
        group = dist.group.WORLD
        compiled(*given(rank), group.group_name)
        if rank == 0:
            group.set_timeout(datetime.timedelta(seconds=0.5))
            try:
                with pytest.raises(dist.DistBackendError):
                    compiled(*given(rank), group.group_name)
            finally:
                over.set()
        else:
            over.wait(600)
    threads.run(2, member)
    assert not carrier.flights
