"""DistributedDataParallel in worlds of several threads: training is that of one process on all samples."""
import copy

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import threads
from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from rushlight.distributed.algorithms.join import Join
from rushlight.nn.parallel import DistributedDataParallel

SAMPLES = torch.randn(12, 6, generator=torch.Generator().manual_seed(1))


def network(buffers=False):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 40), *([torch.nn.BatchNorm1d(40)] if buffers else []),
                               torch.nn.ReLU(), torch.nn.Linear(40, 2))


class Branches(torch.nn.Module):
    """Uses one of two layers, and a third never."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = (torch.nn.Linear(6, 2) for _ in range(3))

    def forward(self, x, first):
        return self.a(x) if first else self.b(x)


def trained(model, batches, steps=5):
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        model(batches).square().mean().backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


WAYS = {"plain": {}, "many buckets": {"bucket_cap_mb": 1e-6}, "views": {"gradient_as_bucket_view": True},
        "seeking": {"find_unused_parameters": True}, "static": {"static_graph": True}}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_training_is_that_of_one_process(way, compiled):
    expected = trained(network(), SAMPLES)
    models = [network() for _ in range(3)]
    for p in models[2].parameters():
        p.data.add_(1)  # rank 0's are taken

    def member(rank):
        model = DistributedDataParallel(models[rank], **WAYS[way])
        for a, b in zip(trained(torch.compile(model) if compiled else model, SAMPLES[4 * rank:4 * rank + 4]), expected):
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    threads.run(3, member)


def test_gradients_add_up_without_sync():
    plain = network()
    for part in (SAMPLES[:6], SAMPLES[6:]):
        (plain(part).square().mean() / 2).backward()
    models = [network() for _ in range(2)]

    def member(rank):
        model = DistributedDataParallel(models[rank])
        with model.no_sync():
            (model(SAMPLES[3 * rank:3 * rank + 3]).square().mean() / 2).backward()
        (model(SAMPLES[6 + 3 * rank:9 + 3 * rank]).square().mean() / 2).backward()
        for a, b in zip(plain.parameters(), model.parameters()):
            torch.testing.assert_close(a.grad, b.grad)
    threads.run(2, member)


def test_parameters_without_gradients():
    models = [Branches() for _ in range(2)]
    plain = Branches()
    ((plain(SAMPLES[:6], True).sum() + plain(SAMPLES[6:], False).sum()) / 2).backward()

    def member(rank):
        model = DistributedDataParallel(models[rank], find_unused_parameters=True)
        model(SAMPLES[6 * rank:6 * rank + 6], rank == 0).sum().backward()
        assert model.module.c.weight.grad is None
        torch.testing.assert_close(model.module.a.weight.grad, plain.a.weight.grad)
        torch.testing.assert_close(model.module.b.weight.grad, plain.b.weight.grad)
        strict = DistributedDataParallel(copy.deepcopy(model.module))
        strict(SAMPLES, True).sum().backward()
        with pytest.raises(RuntimeError, match="finished reduction in the prior iteration.*find_unused_parameters"):
            strict(SAMPLES, True)
    threads.run(2, member)


def test_other_models_are_refused():
    def member(rank):
        with pytest.raises(RuntimeError, match="same model across all ranks|appears not to match"):
            DistributedDataParallel(torch.nn.Linear(2, 3 + rank))
        dist.barrier()
    threads.run(2, member)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "powerSGD", "batched"])
def test_hooks(name):
    expected = trained(network(), SAMPLES)
    models = [network() for _ in range(2)]

    def member(rank):
        model = DistributedDataParallel(models[rank])
        if name in ("powerSGD", "batched"):
            hook = powerSGD_hook.powerSGD_hook if name == "powerSGD" else powerSGD_hook.batched_powerSGD_hook
            model.register_comm_hook(powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2
                                                                 if name == "powerSGD" else 16, start_powerSGD_iter=2),
                                     hook)
        else:
            model.register_comm_hook(None, default_hooks.fp16_compress_hook if name == "float16"
                                     else default_hooks.bf16_compress_hook)
        return trained(model, SAMPLES[6 * rank:6 * rank + 6])
    first, second = threads.run(2, member)
    assert all(torch.equal(a, b) for a, b in zip(first, second))  # all processes step alike
    for a, b in zip(first, expected):
        torch.testing.assert_close(a, b, atol=0.02, rtol=0.05)


@pytest.mark.parametrize("by_all", [True, False])
def test_uneven_numbers_of_batches(by_all):
    models = [network(True) for _ in range(3)]
    seen = {}

    def member(rank):
        model = DistributedDataParallel(models[rank])
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with model.join(divide_by_initial_world_size=by_all):
            for k in range(rank + 1):
                optimizer.zero_grad()
                model(SAMPLES[4 * k:4 * k + 4]).square().mean().backward()
                optimizer.step()
                seen[rank, k] = model.module[0].weight.grad.clone()
        return [t.clone() for t in (*model.module.parameters(), *model.module.buffers())]
    found = threads.run(3, member)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other))
    assert torch.equal(seen[1, 1], seen[2, 1]) and len(seen) == 6

    def strict(rank):
        model = DistributedDataParallel(network())
        with Join([model], throw_on_early_termination=True):
            for _ in range(rank + 1):
                model(SAMPLES).sum().backward()
    with pytest.raises(RuntimeError, match="exhausted inputs"):
        threads.run(2, strict)
