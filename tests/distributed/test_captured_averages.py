"""DistributedDataParallel in compiled programs: averages are operators of the backward program, in buckets."""
import contextlib
import functools
import logging

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import carrier, threads
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.utils.checkpoint import checkpoint


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 40), torch.nn.Tanh(), torch.nn.Linear(40, 40), torch.nn.Tanh(),
                               torch.nn.Linear(40, 3))


def batch(step, rank=0, ranks=1):
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(step))
    return x[rank * 8 // ranks:(rank + 1) * 8 // ranks]


def trained(run, parameters, rank=0, ranks=1, quiet=None, steps=6):
    """Losses over steps, of which every third adds to the gradients of a pass without averages where ``quiet`` is
    given."""
    optimizer, found = torch.optim.AdamW(parameters, lr=0.02), []
    for step in range(steps):
        optimizer.zero_grad()
        if quiet is not None and step % 3 == 2:
            with quiet():
                run(batch(step + 100, rank, ranks)).square().mean().backward()
        loss = run(batch(step, rank, ranks)).square().mean()
        loss.backward()
        optimizer.step()
        loss = loss.detach().clone()
        if ranks > 1:
            dist.all_reduce(loss, dist.ReduceOp.AVG)
        found.append(loss.item())
    return found


@pytest.fixture
def exchanges(monkeypatch):
    """The bytes of each collective that is an operator."""
    seen, prepared = [], carrier.prepared
    monkeypatch.setattr(carrier, "prepared", lambda what, array, *given: seen.append((what, array.nbytes))
                        or prepared(what, array, *given))
    return seen


def test_losses_are_those_of_one_process(exchanges, caplog):
    alone = network()
    expected = trained(alone, alone.parameters(), quiet=contextlib.nullcontext)

    def member(rank):
        model = DistributedDataParallel(network(), bucket_cap_mb=2000 / 2**20)
        return trained(torch.compile(model, fullgraph=False), model.parameters(), rank, 2, model.no_sync)
    with caplog.at_level(logging.INFO, logger="rushlight.buckets"):
        found = threads.run(2, member)
    for losses in found:
        assert losses == pytest.approx(expected, abs=1e-5)
    assert "6 gradients in 2 buckets" in caplog.text
    assert {what for what, _ in exchanges} == {"all_reduce"} and len(exchanges) % 4 == 0 and exchanges


def test_a_step_is_one_graph_with_an_exchange_for_each_bucket(exchanges):
    def member(rank):
        model = DistributedDataParallel(network(), bucket_cap_mb=2000 / 2**20)
        model_step = torch.compile(lambda x: model(x).square().mean(), fullgraph=True)
        for step in range(2):
            model_step(batch(step, rank, 2)).backward()
        return len(model.reducer.buckets), [p.grad.clone() for p in model.parameters()]
    found = threads.run(2, member)
    count = found[0][0]
    assert count == 2 and len(exchanges) == 2 * 2 * count
    alone = network()
    for step in range(2):
        alone(batch(step)).square().mean().backward()
    for _, gradients in found:
        torch.testing.assert_close(gradients, [p.grad for p in alone.parameters()])


@pytest.mark.parametrize("more", [{"find_unused_parameters": True}, {"gradient_as_bucket_view": True}, {"hook": True}])
def test_what_looks_at_buckets_averages_outside(exchanges, more):
    def member(rank):
        options = dict(more)
        hook = options.pop("hook", False)
        model = DistributedDataParallel(network(), **options)
        if hook:
            model.register_comm_hook(None, dist.algorithms.ddp_comm_hooks.default_hooks.allreduce_hook)
        return trained(torch.compile(model), model.parameters(), rank, 2)
    alone = network()
    expected = trained(alone, alone.parameters())
    for losses in threads.run(2, member):
        assert losses == pytest.approx(expected, abs=1e-5)
    assert exchanges == []


def test_gradients_from_elsewhere_are_averaged_with_the_next():
    """A pass through the module itself leaves gradients that differ; the next pass averages the sum."""
    def member(rank):
        model = DistributedDataParallel(network())
        run = torch.compile(model)
        run(batch(0, rank, 2)).sum().backward()
        model.module(batch(1, rank, 2)).sum().backward()
        run(batch(2, rank, 2)).sum().backward()
        return [p.grad.clone() for p in model.parameters()]
    first, second = threads.run(2, member)
    alone = network()
    for step in range(3):
        (alone(batch(step)).sum() / 2).backward()
    for gradients in (first, second):
        torch.testing.assert_close(gradients, [p.grad for p in alone.parameters()])


class Rank:
    """What a story is told with: ``run`` the compiled wrapper, ``local`` the module in it, ``batch(step)``."""

    def __init__(self, rank=0, ranks=1):
        model = network()
        self.model = DistributedDataParallel(model, bucket_cap_mb=2000 / 2**20) if ranks > 1 else model
        self.run = torch.compile(self.model) if ranks > 1 else self.model
        self.local = self.model.module if ranks > 1 else self.model
        self.no_sync = self.model.no_sync if ranks > 1 else contextlib.nullcontext
        self.compile = torch.compile if ranks > 1 else lambda function: function
        self.rank, self.ranks = rank, ranks

    def batch(self, step):
        return batch(step, self.rank, self.ranks)

    def backward(self, output, step=0):
        """Of outputs, or of what the module itself makes of a batch, whose gradients differ between ranks."""
        (output.square().mean() if output is not None else self.local(self.batch(step)).square().mean()).backward()


def a_forward_whose_backward_never_runs(r):
    r.run(r.batch(0))
    r.backward(None, 1)
    r.backward(r.run(r.batch(2)))


def the_first_of_two_forwards_goes_back(r):
    first, _ = r.run(r.batch(0)), r.run(r.batch(1))
    r.backward(first)
    r.backward(None, 2)
    r.backward(r.run(r.batch(3)))


def two_forwards_of_which_the_first_goes_back_late(r):
    first, second = r.run(r.batch(0)), r.run(r.batch(1))
    r.backward(second)
    r.backward(None, 2)
    r.backward(first)


def one_backward_of_two_forwards(r):
    (r.run(r.batch(0)).square().mean() + r.run(r.batch(1)).square().mean()).backward()


def the_module_itself_in_the_same_backward(r):
    (r.run(r.batch(0)).square().mean() + r.local(r.batch(1)).square().mean()).backward()


def the_module_itself_in_the_same_program(r):
    def loss(x, y):
        return r.local(y).square().mean() + r.run(x).square().mean() + r.run(y).mean() + r.local(x).mean()
    r.compile(loss)(r.batch(0), r.batch(1)).backward()


def a_program_with_its_backward(r):
    def step(x, y):
        (r.local(y).square().mean() + r.run(x).square().mean()).backward()
    step = r.compile(step)
    step(r.batch(0), r.batch(1))
    step(r.batch(2), r.batch(3))


def a_program_with_a_backward_of_its_own(r):
    r.compile(lambda x: r.local(x).square().mean().backward())(r.batch(0))
    r.backward(r.run(r.batch(1)))


def without_averages_beside_a_forward(r):
    first = r.run(r.batch(0))
    with r.no_sync():
        r.backward(r.run(r.batch(1)))
    r.backward(first)


def gradients_added_up(r):
    for step in range(3):
        with r.no_sync() if step == 1 else contextlib.nullcontext():
            r.backward(r.run(r.batch(step)))
    r.backward(r.run(r.batch(3)))


def an_error_in_between(r):
    def refuse(_):
        raise KeyError("refused")
    handle = r.local[4].weight.register_hook(refuse)
    with pytest.raises(KeyError):
        r.backward(r.run(r.batch(0)))
    handle.remove()
    for p in r.model.parameters():
        p.grad = None
    r.backward(None, 1)
    r.backward(r.run(r.batch(2)))


def a_forward_without_gradients(r):
    with torch.no_grad():
        r.run(r.batch(0))
    r.backward(None, 1)
    with torch.no_grad():
        r.run(r.batch(2))
    r.backward(r.run(r.batch(3)))


def checkpoints(reentrant):
    """Stories of activation checkpoints in one program."""
    again = functools.partial(checkpoint, use_reentrant=reentrant)

    def inputs(r):
        return [r.batch(step).requires_grad_() for step in range(2)]

    def of_the_wrapper(r):
        r.compile(lambda x, y: again(r.model, x).square().mean() + r.local(y).square().mean())(*inputs(r)).backward()

    def of_the_module(r):
        r.compile(lambda x, y: r.model(x).square().mean() + again(r.local, y).square().mean())(*inputs(r)).backward()

    def of_both(r):
        def outer(x):
            return again(lambda v: r.local(v.sin()).mean() + r.model(v.cos()).square().mean(), x) + x.mean()
        r.compile(lambda x, y: again(outer, x) + r.local(y).square().mean())(*inputs(r)).backward()

    def of_two(r):
        r.compile(lambda x, y: again(r.model, x).square().mean() + again(r.model, y).mean() + r.model(x).mean())(
            *inputs(r)).backward()

    def with_its_backward(r):
        def step(x, y):
            (again(r.model, x).square().mean() + r.local(y).square().mean()).backward()
        step = r.compile(step)
        step(*inputs(r))
        step(*inputs(r))
    return [pytest.param(story, id=f"{story.__name__}-{'reentrant' if reentrant else 'saved'}")
            for story in (of_the_wrapper, of_the_module, of_both, of_two, with_its_backward)]


STORIES = [a_forward_whose_backward_never_runs, the_first_of_two_forwards_goes_back,
           two_forwards_of_which_the_first_goes_back_late, one_backward_of_two_forwards,
           the_module_itself_in_the_same_backward, the_module_itself_in_the_same_program, a_program_with_its_backward,
           a_program_with_a_backward_of_its_own, without_averages_beside_a_forward, gradients_added_up,
           an_error_in_between, a_forward_without_gradients, *checkpoints(True), *checkpoints(False)]


@pytest.mark.parametrize("story", STORIES)
def test_gradients_are_those_of_one_process(story):
    """Whatever else reaches the parameters: averages belong to the backward pass that makes them."""
    def member(rank):
        told = Rank(rank=rank, ranks=2)
        story(told)
        return [p.grad.clone() for p in told.model.parameters()]
    alone = Rank()
    story(alone)
    for gradients in threads.run(2, member):
        torch.testing.assert_close(gradients, [p.grad for p in alone.model.parameters()])


def test_two_forwards_in_a_program_are_one_exchange_for_each_bucket(exchanges):
    def member(rank):
        model = DistributedDataParallel(network(), bucket_cap_mb=2000 / 2**20)
        torch.compile(lambda x, y: model(x).sum() + model(y).sum() + model.module(y).sum(), fullgraph=True)(
            batch(0, rank, 2), batch(1, rank, 2)).backward()
    threads.run(2, member)
    assert len(exchanges) == 2 * 2


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_forward_keeps_one_exchange_for_each_bucket(exchanges, reentrant):
    """Its averages are made where the rest of the backward pass has come to parameters; activations are computed again
    all the same."""
    kept = []

    def member(rank):
        model = DistributedDataParallel(network(), bucket_cap_mb=2000 / 2**20)

        def loss(x, y):
            return checkpoint(model, x, use_reentrant=reentrant).sum() + checkpoint(
                model.module, y, use_reentrant=reentrant).sum()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(tuple(t.shape)) or t, lambda t: t):
            found = torch.compile(loss, fullgraph=True)(*(batch(k, rank, 2).requires_grad_() for k in range(2)))
        found.backward()
    threads.run(2, member)
    assert len(exchanges) == 2 * 2
    assert (4, 6) in kept and (4, 40) not in kept
