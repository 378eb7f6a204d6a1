"""Parameters that are averaged now and then, and scalers that all processes share: as PyTorch's, and what several ranks
get."""
import warnings

import pytest
import torch as judge

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import threads
from rushlight.nn.parallel import DistributedDataParallel


@pytest.fixture(params=[torch, judge], ids=["rushlight", "torch"])
def lib(request):
    group = request.param.distributed
    group.init_process_group("gloo", store=group.HashStore(), rank=0, world_size=1)
    yield request.param
    group.destroy_process_group()


def of(lib, path):
    return __import__(f"{lib.__name__}.distributed.{path}", fromlist=["x"])


def averagers(lib):
    name = "algorithms.model_averaging"
    return (of(lib, f"{name}.averagers").PeriodicModelAverager,
            of(lib, f"{name}.hierarchical_model_averager").HierarchicalModelAverager, of(lib, f"{name}.utils"))


def test_mistakes(lib):
    periodic, hierarchical, utils = averagers(lib)
    for make, kind, text in ((lambda: periodic(4, -1), ValueError, "warmup_steps"),
                             (lambda: periodic(0), ValueError, "period"),
                             (lambda: hierarchical(None), ValueError, "must not be empty"),
                             (lambda: hierarchical({0: 1}), ValueError, "minimum period"),
                             (lambda: hierarchical({2: 2}), ValueError, "must be equal to the size"),
                             (lambda: hierarchical({2: 2, 4: 1}), ValueError, "group_size"),
                             (lambda: hierarchical({2: 1}, -1), ValueError, "warmup_steps"),
                             (lambda: list(utils.get_params_to_average([1])), NotImplementedError, "is not supported"),
                             (lambda: utils.average_parameters(iter([]), None), ValueError, "non-empty list")):
        with pytest.raises(kind, match=text):
            make()
    with pytest.warns(UserWarning, match="When period is 1"):
        periodic(1)
    with pytest.warns(UserWarning, match="When the maximum period"):
        hierarchical({1: 1})


def test_optimizer(lib):
    weight = lib.nn.Parameter(lib.ones(2))
    other = lib.nn.Parameter(lib.ones(2))
    local = lib.optim.SGD([weight], 0.5, momentum=0.5)
    optimizer = of(lib, "optim").PostLocalSGDOptimizer(local, averagers(lib)[0](2))
    assert isinstance(optimizer, lib.optim.Optimizer) and repr(optimizer) == repr(local)
    optimizer.add_param_group({"params": [other]})
    for _ in range(3):
        optimizer.zero_grad()
        (weight.sum() + other.sum()).backward()
        optimizer.step()
    state = optimizer.state_dict()
    assert weight.tolist() == other.tolist() == [-1.125] * 2 and state["step"] == 3 and len(optimizer.param_groups) == 2
    optimizer.averager.step = 0
    optimizer.load_state_dict(state)
    assert optimizer.averager.step == 3 and optimizer.state[weight]["momentum_buffer"].tolist() == [1.75] * 2
    del state["step"]
    with pytest.warns(UserWarning, match="step counter"):
        optimizer.load_state_dict(state)
    assert optimizer.averager.step == 0


def test_scaler(lib):
    kind = of(lib, "fsdp.sharded_grad_scaler").ShardedGradScaler
    with pytest.warns(UserWarning, match="Disabling"):
        assert not kind().is_enabled()
    half = lib.nn.Parameter(lib.ones(2, dtype=lib.float16))
    half.grad, scaler = lib.full((2,), 8.0, dtype=lib.float16), kind("cpu", 4.0, growth_interval=1)
    scaler.scale(lib.ones(1))
    scaler.step(lib.optim.SGD([half], 0.5))
    scaler.update()
    assert half.tolist() == [0.0, 0.0] and scaler.get_scale() == 8.0


def test_when_parameters_are_averaged():
    """Every two steps over pairs, every four over all, from the third step on; those without a gradient are left."""
    steps = 9

    def member(rank):
        _, hierarchical, _ = averagers(torch)
        averager, seen = hierarchical({2: 2, 4: 4}, warmup_steps=3), []
        left = torch.nn.Parameter(torch.full((1,), float(rank)))
        for _ in range(steps):
            weights = [torch.nn.Parameter(torch.full((2,), float(rank), dtype=d)) for d in (torch.float32,
                                                                                         torch.float64)]
            for weight in weights:
                weight.grad = torch.zeros_like(weight)
            averager.average_parameters([{"params": [weights[0], left]}, {"params": [weights[1]]}])
            assert weights[0].tolist() == weights[1].tolist() and left.item() == rank
            seen.append(weights[0][0].item())
        return seen
    for rank, seen in enumerate(threads.run(4, member)):
        pair = rank // 2 * 2 + 0.5
        assert seen == [{0: 1.5, 2: pair}.get(k % 4, rank) if k >= 3 else rank for k in range(steps)]


@pytest.mark.parametrize("nearby", [True, False])
def test_gradients_after_a_while(nearby):
    """Gradients are averaged over all, then over pairs, or not at all; parameters every second step."""
    def member(rank):
        model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
        pair, _ = dist.new_subgroups(2)
        hooks = of(torch, "algorithms.ddp_comm_hooks.post_localSGD_hook")
        state = hooks.PostLocalSGDState(None, pair, 2, post_local_gradient_allreduce=nearby)
        model.register_comm_hook(state, hooks.post_localSGD_hook)
        found = []
        for _ in range(3):
            model.zero_grad()
            model(torch.full((1, 1), float(rank))).sum().backward()
            found.append(model.module.weight.grad.item())
        return found
    assert threads.run(4, member) == [[1.5, 1.5, rank // 2 * 2 + 0.5 if nearby else rank] for rank in range(4)]


def test_training_with_averages_of_parameters():
    """Two ranks that average after every step have the weights of one that takes both batches (plain SGD)."""
    def batches(rank):
        return torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(rank))

    def steps(optimizer, weight, data):
        for batch in data:
            optimizer.zero_grad()
            (batch @ weight).square().mean().backward()
            optimizer.step()
        return weight.detach()

    def member(rank):
        weight = torch.nn.Parameter(torch.ones(3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            averager = averagers(torch)[0](1)
        optimizer = dist.optim.PostLocalSGDOptimizer(torch.optim.SGD([weight], 0.1), averager)
        return steps(optimizer, weight, batches(rank))
    weight = torch.nn.Parameter(torch.ones(3))
    expected = steps(torch.optim.SGD([weight], 0.1), weight, torch.cat([batches(0), batches(1)], 1))
    for found in threads.run(2, member):
        assert torch.allclose(found, expected, rtol=0, atol=1e-6)
