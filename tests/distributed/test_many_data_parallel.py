"""DistributedDataParallel in worlds of several threads: training is that of one process on all samples."""
import contextlib
import copy
import gc
import random

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


class Factors(torch.nn.Module):
    """Parameters whose gradients are the numbers that forward() is given for them."""

    def __init__(self):
        super().__init__()
        self.factors = torch.nn.ParameterList([torch.zeros(2) for _ in range(4)])

    def forward(self, numbers):
        return sum((self.factors[k] * number).sum() for k, number in numbers.items())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("more", [{}, {"gradient_as_bucket_view": True}, {"bucket_cap_mb": 1e-6}, {"hook": True}])
def test_gradients_of_any_order_of_passes(more, seed):
    """Synchronized passes average what any process has used since the last of them, and leave the rest as it is."""
    ranks, draw, more = 3, random.Random(f"{seed}"), dict(more)
    has_hook, passes = more.pop("hook", False), []
    for _ in range(8):
        used = [{k: float(draw.randint(1, 9)) for k in range(4) if draw.random() < 0.4} or {0: 1.0}
                for _ in range(ranks)]
        passes.append((used, draw.random() < 0.5, draw.choice([None, None, True, False])))

    def expected():
        sums, touched = [[None] * 4 for _ in range(ranks)], set()
        for used, is_synchronized, zeroed in passes:
            if zeroed is not None:
                sums = [[None if zeroed or v is None else 0.0 for v in row] for row in sums]
                touched = set() if zeroed else touched
            for row, numbers in zip(sums, used):
                for k, number in numbers.items():
                    row[k] = (row[k] or 0.0) + number
                    touched.add(k)
            if is_synchronized:
                for k in touched:
                    mean = sum(row[k] or 0.0 for row in sums) / ranks
                    for row in sums:
                        row[k] = mean
                touched = set()
            yield [list(row) for row in sums]

    def member(rank):
        model = DistributedDataParallel(Factors(), find_unused_parameters=True, **more)
        if has_hook:
            model.register_comm_hook(None, default_hooks.allreduce_hook)
        for (used, is_synchronized, zeroed), wanted in zip(passes, expected()):
            if zeroed is not None:
                model.zero_grad(set_to_none=zeroed)
            with contextlib.nullcontext() if is_synchronized else model.no_sync():
                model(used[rank]).backward()
            found = [p.grad for p in model.parameters()]
            assert [g is None for g in found] == [v is None for v in wanted[rank]]
            for gradient, value in zip(found, wanted[rank]):
                if gradient is not None:
                    torch.testing.assert_close(gradient, torch.full((2,), value))
    threads.run(ranks, member)


@pytest.mark.parametrize("more", [{}, {"bucket_cap_mb": 1e-6}, {"gradient_as_bucket_view": True}])
def test_static_graphs_may_leave_parameters_out(more):
    """The first backward pass tells which; processes may differ in them."""
    def member(rank):
        model = DistributedDataParallel(Factors(), static_graph=True, **more)
        for _ in range(3):
            model.zero_grad()
            model({0: 1.0 + rank, 1 + rank: 2.0}).backward()
            found = [p.grad for p in model.parameters()]
            assert found[3] is None
            for gradient, value in zip(found, (1.5, 1.0, 1.0)):
                torch.testing.assert_close(gradient, torch.full((2,), value))
    threads.run(2, member)


def test_static_graphs_with_an_output_that_no_loss_uses():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)

        def forward(self, x):
            return self.a(x), self.b(x)

    def member(rank):
        model = DistributedDataParallel(Two(), static_graph=True)
        for _ in range(3):
            model.zero_grad()
            model(torch.full((1, 1), rank + 1.0))[0].sum().backward()
            assert model.module.a.weight.grad.item() == 1.5 and model.module.b.weight.grad is None
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


def test_a_wrapper_that_is_gone_leaves_parameters_alone():
    """A pass that has begun has its averages nevertheless; what comes after it is local."""
    def member(rank):
        module = network()
        DistributedDataParallel(module)(SAMPLES[rank * 6:][:6]).sum().backward()
        averaged = [p.grad.clone() for p in module.parameters()]
        net = DistributedDataParallel(module)
        reducer = net.reducer
        net(SAMPLES[:2]).sum().backward()
        del net
        gc.collect()
        module(SAMPLES[:2]).sum().backward()
        return averaged, reducer.owed
    alone = network()
    (alone(SAMPLES).sum() / 2).backward()
    for averaged, owed in threads.run(2, member):
        torch.testing.assert_close(averaged, [p.grad for p in alone.parameters()])
        assert not owed


# --- hooks by name ----------------------------------------------------------------------------------------------------
HOOKS = ["ALLREDUCE", "FP16_COMPRESS", "BF16_COMPRESS", "QUANTIZE_PER_TENSOR", "QUANTIZE_PER_CHANNEL",
         "POWER_SGD", "BATCHED_POWER_SGD_RANK2"]


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_by_name_average_gradients(name):
    """To the precision of what is sent: a number of eight bits is off by half of 1/255 of the range of its row."""
    from rushlight.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
    alone = network()
    alone(SAMPLES).square().mean().backward()
    tolerance = {"ALLREDUCE": 1e-6, "FP16_COMPRESS": 1e-3, "BF16_COMPRESS": 8e-3, "QUANTIZE_PER_TENSOR": 1 / 255,
                 "QUANTIZE_PER_CHANNEL": 1 / 255}.get(name, 1e-6)

    def member(rank):
        model = DistributedDataParallel(network(), gradient_as_bucket_view=rank == 0)
        register_ddp_comm_hook(DDPCommHookType[name], model)
        with pytest.raises(RuntimeError, match="once"):
            register_ddp_comm_hook(DDPCommHookType.NOOP, model)
        model(SAMPLES[6 * rank:6 * rank + 6]).square().mean().backward()
        return [p.grad.clone() for p in model.parameters()]
    for found in threads.run(2, member):
        reach = max(p.grad.abs().max().item() for p in alone.parameters())
        for a, p in zip(found, alone.parameters()):
            torch.testing.assert_close(a, p.grad, atol=tolerance * max(1.0, 2 * reach), rtol=tolerance)


def test_quantized_averages_have_a_scale_for_each_row():
    """Small gradients beside a large one are lost with one scale for all, and kept with one for each few elements."""
    from rushlight.distributed.algorithms.ddp_comm_hooks import quantization_hooks
    small = torch.full((700,), 1e-3)
    small[600] = 1000.0

    def member(rank, hook, *sizes):
        bucket = type("Bucket", (), {"buffer": lambda self: small * (rank + 1)})()
        return hook(dist.group.WORLD, bucket, *sizes).wait()
    for found in threads.run(2, member, quantization_hooks.quantization_pertensor_hook):
        assert found.shape == small.shape and not found[:600].any() and abs(found[600] - 1500) < 5
    for found in threads.run(2, member, quantization_hooks.quantization_perchannel_hook, 512):
        torch.testing.assert_close(found[:512], small[:512] * 1.5, rtol=1e-2, atol=0)
        assert found.shape == small.shape and not found[512:600].any()


def test_exchanges_of_hooks_go_on_while_the_hook_returns(monkeypatch):
    """A hook hands out a future that is not done while other ranks have yet to come."""
    import threading
    come = threading.Event()

    def member(rank):
        bucket = type("Bucket", (), {"buffer": lambda self: torch.full((4,), float(rank))})()
        if rank:
            assert come.wait(60)
        future = default_hooks.fp16_compress_hook(dist.group.WORLD, bucket)
        early = future.done()
        come.set()
        return early if rank == 0 else None, future.wait().tolist(), future.wait().dtype
    assert threads.run(2, member) == [(False, [0.5] * 4, torch.float32), (None, [0.5] * 4, torch.float32)]


def test_what_a_wrapper_logs_of_itself():
    def member(rank):
        model = DistributedDataParallel(network(buffers=True), bucket_cap_mb=1, find_unused_parameters=True)
        found = model._get_ddp_logging_data()
        return [found[name] for name in ("rank", "world_size", "module_name", "find_unused_parameters", "dtypes",
                                         "bucket_cap_bytes", "num_parameter_tensors", "total_parameter_size_bytes",
                                         "device_ids", "output_device", "has_sync_bn", "backend_name")]
    size = sum(p.nbytes for p in network(buffers=True).parameters())
    for rank, found in enumerate(threads.run(2, member)):
        assert found == [rank, 2, "Sequential", 1, "float", 1 << 20, 6, size, "", -1, 0, "gloo"]
