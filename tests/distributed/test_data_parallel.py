"""Models in parallel over one process and one device: DistributedDataParallel and its hooks, parts of arguments, copies
of modules."""
import importlib
from collections import namedtuple

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import threads
from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks
from rushlight.nn.parallel import DataParallel, DistributedDataParallel, gather, parallel_apply, replicate, scatter
from rushlight.nn.parallel.scatter_gather import scatter_kwargs


@pytest.fixture
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


def test_gradients_are_those_of_the_module(group):
    plain, model, x = network(), DistributedDataParallel(network(), find_unused_parameters=True), torch.randn(5, 3)
    for each in (plain, model):
        with model.no_sync():
            each(x).square().sum().backward()
        each(x).square().sum().backward()
    for a, b in zip(plain.parameters(), model.parameters()):
        assert torch.equal(a.grad, b.grad)
    assert list(model.state_dict()) == [f"module.{name}" for name in plain.state_dict()] and isinstance(dist.GradBucket,
                                                                                                        type)


@pytest.mark.parametrize("seeks", [False, True])
def test_passes_that_callers_prepare(seeks):
    """As trainers do that decide after the forward pass that gradients are averaged."""
    def member(rank):
        model = DistributedDataParallel(network(), find_unused_parameters=seeks)
        assert isinstance(model.reducer, importlib.import_module("rushlight._C._distributed_c10d").Reducer)
        inputs, found = torch.full((2, 3), rank + 1.0), []
        for outputs_of in (list, lambda each: each[0]):
            model.zero_grad()
            model.require_backward_grad_sync = False
            output = model(inputs)
            model.require_backward_grad_sync = True
            assert not model.reducer._rebuild_buckets()
            model.reducer.prepare_for_backward(outputs_of([output]))
            output.sum().backward()
            found.append([p.grad.tolist() for p in model.parameters()])
        return found

    first, second = threads.run(2, member)
    plain = network()
    sum(plain(torch.full((2, 3), rank + 1.0)).sum() / 2 for rank in range(2)).backward()
    assert first == second and first[0] == first[1]
    for found, p in zip(first[0], plain.parameters(), strict=True):
        torch.testing.assert_close(torch.tensor(found), p.grad)


@pytest.mark.parametrize("hook", [default_hooks.allreduce_hook, default_hooks.bf16_compress_hook,
                                  default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)])
def test_hooks_see_gradients(group, hook):
    seen, model, x = [], DistributedDataParallel(network(), bucket_cap_mb=1e-6), torch.randn(5, 3)
    model.register_comm_hook(None, lambda state, bucket: seen.append((bucket.index(), bucket.is_last(),
                                                                      bucket.parameters()[0].shape))
                             or hook(state, bucket))
    with model.no_sync():
        model(x).sum().backward()
    assert seen == []
    whole = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    assert len(seen) == 4 and [last for _, last, _ in sorted(seen)] == [False] * 3 + [True]
    for p, expected in zip(model.parameters(), whole):
        torch.testing.assert_close(p.grad, expected, rtol=1e-2, atol=1e-2)
    with pytest.raises(RuntimeError, match="once"):
        model.register_comm_hook(None, hook)


def test_what_is_refused():
    with pytest.raises(ValueError, match="init_process_group"):
        DistributedDataParallel(network())
    with pytest.raises(RuntimeError, match="require a gradient"):
        DistributedDataParallel(torch.nn.ReLU())
    with pytest.raises(ValueError, match="device_ids"):
        DistributedDataParallel(network(), device_ids=[0])


def test_parts_and_wholes():
    Pair = namedtuple("Pair", "a b")
    x = torch.arange(8.0).reshape(4, 2)
    given = Pair(x, {"k": [x * 2, "text"]})
    parts = scatter(given, ["cpu", "cpu"])
    assert [type(p) for p in parts] == [Pair, Pair] and parts[1].b["k"][1] == "text" and torch.equal(parts[1].a, x[2:])
    joined = gather([Pair(p.a, {"k": [p.b["k"][0]]}) for p in parts], "cpu")
    assert torch.equal(joined.a, x) and torch.equal(joined.b["k"][0], x * 2)
    arguments, keywords = scatter_kwargs((x,), {"k": 3}, ["cpu", "cpu"])
    assert len(arguments) == len(keywords) == 2 and keywords[0] == {"k": 3}


def test_copies_give_their_gradients_to_the_original():
    model, x = network(), torch.randn(4, 3)
    expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    copies = replicate(model, ["cpu", "cpu"])
    assert all(not list(c.parameters()) for c in copies)
    gather(parallel_apply(copies, scatter(x, ["cpu", "cpu"])), "cpu").square().sum().backward()
    for p, g in zip(model.parameters(), expected):
        torch.testing.assert_close(p.grad, g)
    assert torch.equal(DataParallel(model)(x), model(x))
    with pytest.raises(AssertionError, match="inputs"):
        parallel_apply(copies, [x])
