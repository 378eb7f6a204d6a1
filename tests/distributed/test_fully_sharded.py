"""FullyShardedDataParallel: strategies train as one process does; states of all types go to and fro; parameters are
whole where that is asked for."""
from __future__ import annotations

import datetime
import functools

import pytest

import rushlight as torch
from rushlight import nn
from rushlight._src.core.settings import settings
from rushlight.distributed import threads
from rushlight.distributed.algorithms._comm_hooks import default_hooks
from rushlight.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict, set_model_state_dict)
from rushlight.distributed.fsdp import (FullOptimStateDictConfig, FullStateDictConfig, MixedPrecision, ShardingStrategy,
                                        StateDictType)
from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.fsdp.wrap import (CustomPolicy, ModuleWrapPolicy, enable_wrap, size_based_auto_wrap_policy,
                                             wrap)
from rushlight.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh

PATIENCE = datetime.timedelta(minutes=10)


@pytest.fixture(autouse=True)
def by_meaning():
    with settings.set(kernels=False, store=False):
        yield


def model():
    made = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7).eval()),
                         nn.Linear(7, 3))
    made[2][1].train(False)
    generator = torch.Generator().manual_seed(0)
    for p in made.parameters():
        p.data = torch.randn(p.shape, generator=generator) * 0.4
    return made


def data(step, rank=0, ranks=1):
    generator = torch.Generator().manual_seed(step)
    x, y = torch.randn(8, 6, generator=generator), torch.randn(8, 3, generator=generator)
    part = slice(rank * 8 // ranks, (rank + 1) * 8 // ranks)
    return x[part], y[part]


def losses(net, steps, rank=0, ranks=1, clip=None):
    optimizer, found = torch.optim.AdamW(net.parameters(), 0.01), []
    for step in range(steps):
        x, y = data(step, rank, ranks)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        if clip is not None:
            clip(net)
        optimizer.step()
        total = loss.detach().clone()
        if ranks > 1:
            torch.distributed.all_reduce(total, torch.distributed.ReduceOp.AVG)
        found.append(total.item())
    return found


# three processes have batches of other sizes: their outputs are compared
def run(count, function, *args):
    return threads.run(count, function, *args, timeout=PATIENCE)


POLICY = functools.partial(size_based_auto_wrap_policy, min_num_params=40)


@pytest.mark.parametrize("strategy, policy, ranks", (
    ("FULL_SHARD", None, 2), ("FULL_SHARD", POLICY, 3), ("SHARD_GRAD_OP", ModuleWrapPolicy({nn.Linear}), 2),
    ("NO_SHARD", POLICY, 2), ("HYBRID_SHARD", CustomPolicy(lambda m: isinstance(m, nn.Linear)), 4)))
def test_losses_are_those_of_one_process(strategy, policy, ranks):
    """Over 50 steps, to 1e-5, with gradients clipped."""
    expected = losses(model(), 50, clip=lambda net: nn.utils.clip_grad_norm_(net.parameters(), 0.5))

    def member(rank):
        mesh = init_device_mesh("cpu", (2, 2)) if strategy == "HYBRID_SHARD" else None
        net = FSDP(model(), sharding_strategy=ShardingStrategy[strategy], auto_wrap_policy=policy, device_mesh=mesh)
        wrappers = len(FSDP.fsdp_modules(net))
        assert (wrappers > 1) == (policy is not None) and len(FSDP.fsdp_modules(net, root_only=True)) == 1
        return losses(net, 50, rank, ranks, clip=lambda net: net.clip_grad_norm_(0.5))
    if ranks == 3:  # batches of other sizes
        with settings.set(kernels=False, store=False):
            found = run(3, lambda rank: FSDP(model(), auto_wrap_policy=policy)(data(0)[0]))
        assert all(torch.allclose(f, model()(data(0)[0]), atol=1e-6) for f in found)
        return
    for found in run(ranks, member):
        assert found == pytest.approx(expected, abs=1e-5)


def test_states_of_models():
    expected = model().state_dict()
    other = {k: v + 1 if v.is_floating_point() else v for k, v in expected.items()}

    def member(rank):
        net = FSDP(model(), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
        assert [n for n, _ in net.named_parameters()] == [n for n, _ in model().named_parameters()]
        whole = net.state_dict()
        assert list(whole) == list(expected) and all(map(torch.equal, whole.values(), expected.values()))
        net.load_state_dict(other)
        with FSDP.state_dict_type(net, StateDictType.SHARDED_STATE_DICT):
            parts = net.state_dict()
            assert isinstance(parts["0.weight"], DTensor)
            assert torch.equal(parts["0.weight"].full_tensor(), other["0.weight"])
            net.load_state_dict(parts)
        with FSDP.state_dict_type(net, StateDictType.LOCAL_STATE_DICT):
            local = net.state_dict()
            assert local["0.weight"].shape == (3 - rank, 6) and not isinstance(local["0.weight"], DTensor)
            net.load_state_dict(local)
        with FSDP.state_dict_type(net, StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=True)):
            assert bool(net.state_dict()) == (rank == 0)
        assert isinstance(get_model_state_dict(net)["3.weight"], DTensor)
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_model_state_dict(net, expected if rank == 0 else {}, options=options)
        assert all(map(torch.equal, net.state_dict().values(), expected.values()))
        with pytest.raises(RuntimeError, match="Missing key"):
            net.load_state_dict({k: v for k, v in other.items() if k != "0.bias"})
    run(2, member)


def test_states_of_optimizers():
    def member(rank):
        net = FSDP(model(), auto_wrap_policy=POLICY)
        losses(net, 1, rank, 2)
        optimizer = torch.optim.AdamW(net.parameters(), 0.01)
        net(data(5)[0]).sum().backward()
        optimizer.step()
        state = FSDP.optim_state_dict(net, optimizer)
        again = FSDP(model())
        fresh = torch.optim.AdamW(again.parameters(), 0.5)
        fresh.load_state_dict(FSDP.optim_state_dict_to_load(again, fresh, state))
        loaded = FSDP.optim_state_dict(again, fresh)
        assert torch.equal(loaded["state"]["0.weight"]["exp_avg"], state["state"]["0.weight"]["exp_avg"])
        assert fresh.param_groups[0]["lr"] == 0.01
        first = FSDP.full_optim_state_dict(net, optimizer)
        assert bool(first) == (rank == 0)
        fresh.load_state_dict(FSDP.scatter_full_optim_state_dict(first, again, optim=fresh))
        with FSDP.state_dict_type(net, StateDictType.FULL_STATE_DICT, None, FullOptimStateDictConfig(rank0_only=True)):
            assert bool(FSDP.optim_state_dict(net, optimizer)) == (rank == 0)
    run(2, member)


def test_whole_parameters():
    def member(rank):
        net = FSDP(model(), auto_wrap_policy=POLICY)
        net(data(0)[0]).sum().backward()
        with FSDP.summon_full_params(net, with_grads=True):
            shapes = [tuple(p.shape) for p in net.parameters()]
            assert shapes == [tuple(p.shape) for p in model().parameters()]
            assert not any(isinstance(p, DTensor) for p in net.parameters()) and net[0].weight.grad.shape == (5, 6)
            with torch.no_grad():
                net[0].weight.fill_(rank * 0 + 2.0)
        assert isinstance(net[0].weight, DTensor) and net[0].weight.full_tensor().eq(2).all()
        with FSDP.summon_full_params(net, writeback=False):
            with torch.no_grad():
                net[0].weight.fill_(3.0)
            assert net.state_dict()["0.weight"].eq(3).all()
        assert net[0].weight.full_tensor().eq(2).all()
        net.apply(lambda m: nn.init.zeros_(m.bias) if isinstance(m, nn.Linear) else None)
        assert net[3].bias.full_tensor().eq(0).all()
    run(2, member)


def test_gradients_that_wait():
    def member(rank):
        net = FSDP(model())
        for sync in (False, True):
            x, y = data(sync, rank, 2)
            with net.no_sync() if not sync else pytest.MonkeyPatch.context():
                nn.functional.mse_loss(net(x), y).backward()
        return {n: p.grad.full_tensor() for n, p in net.named_parameters()}
    plain = model()
    for step in range(2):
        x, y = data(step)
        nn.functional.mse_loss(plain(x), y).backward()
    for found in run(2, member):
        for name, parameter in plain.named_parameters():
            torch.testing.assert_close(found[name], parameter.grad)


def test_dtypes_values_and_what_is_left_alone():
    def member(rank):
        mixed = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.bfloat16)
        net = FSDP(model(), mixed_precision=mixed)
        out = net(data(0)[0])
        assert out.dtype is torch.bfloat16
        out.float().sum().backward()
        net.eval()(data(0)[0])  # the outermost module's parameters stay whole after it
        assert net.state_dict()["0.weight"].dtype is net[0].weight.dtype is torch.float32
        assert net[0].weight.grad.dtype is torch.float32
        with torch.device("meta"):
            empty = model.__wrapped__() if hasattr(model, "__wrapped__") else nn.Linear(4, 2)
        made = FSDP(empty, param_init_fn=lambda m: (m.to_empty(device="cpu"), nn.init.ones_(m.weight)))
        assert made.weight.full_tensor().eq(1).all()
        uneven = nn.Linear(4, 2)
        nn.init.constant_(uneven.weight, float(rank))
        assert FSDP(uneven, sync_module_states=True).weight.full_tensor().eq(0).all()
        partly = model()
        net = FSDP(partly, ignored_states=[partly[0].weight])
        assert not isinstance(net[0].weight, DTensor) and isinstance(net[0].bias, DTensor)
        with enable_wrap(wrapper_cls=FSDP, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP):
            assert isinstance(wrap(nn.Linear(2, 2)), FSDP)
        assert type(wrap(nn.Linear(2, 2))) is nn.Linear
        with pytest.raises(NotImplementedError, match="rank0_only"):
            with FSDP.summon_full_params(net, rank0_only=True):
                pass
    run(2, member)


def test_parts_without_memory_get_some_later():
    """A model on the device meta is split, then given memory and values: the parts that are there count."""
    plains = [torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)) for _ in range(2)]
    plains[1].load_state_dict(plains[0].state_dict())

    def member(rank):
        plain = plains[rank]
        with torch.device("meta"):
            model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
        model.to_empty(device="cpu")
        with torch.no_grad():
            for part, whole in zip(model.parameters(), plain.parameters()):
                part.copy_(distribute_tensor(whole.detach(), part.device_mesh, part.placements))
        optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (model, plain)]
        for _ in range(3):
            results = [m(torch.ones(2, 3)).square().sum() for m in (model, plain)]
            torch.testing.assert_close(*(r.detach() for r in results))
            for result, optimizer in zip(results, optimizers):
                result.backward()
                optimizer.step()
                optimizer.zero_grad()
    threads.run(2, member)


def test_data_of_a_dtensor_is_replaced():
    """``.data = other`` has the parts of the other one; a plain tensor is refused."""
    def member(rank):
        mesh = init_device_mesh("cpu", (2,))
        whole = torch.arange(8.0).reshape(4, 2)
        one, other = (distribute_tensor(w, mesh, [Shard(0)]) for w in (whole, whole + 1))
        parameter = torch.nn.Parameter(one)
        parameter.data = other
        assert parameter.full_tensor().tolist() == (whole + 1).tolist()
        assert parameter.to_local().tolist() == (whole + 1)[2 * rank:2 * rank + 2].tolist()
        with pytest.raises(RuntimeError, match="DTensor"):
            parameter.data = whole
    threads.run(2, member)


@pytest.mark.parametrize("how", ["assigned", "by the checkpoint package"])
def test_parts_without_memory_are_loaded(how):
    """A model that was split on the device meta takes the tensors of a state in place of its own."""
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    state, expected = plain.state_dict(), plain(torch.ones(2, 3)).detach()

    def member(rank):
        with torch.device("meta"):
            model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
        if how == "assigned":
            own = model.state_dict()
            model.load_state_dict({name: torch.nn.Parameter(distribute_tensor(
                value, own[name].device_mesh, own[name].placements)) for name, value in state.items()}, assign=True)
        else:
            set_model_state_dict(model, state if rank == 0 else {}, options=StateDictOptions(
                full_state_dict=True, broadcast_from_rank0=True))
        result = model(torch.ones(2, 3))
        torch.testing.assert_close(result.detach(), expected)
        result.sum().backward()
        assert all(p.grad is not None and p.grad.to_local().shape == p.to_local().shape for p in model.parameters())
    threads.run(2, member)


def hooked(rank, strategy, hook, kind):
    group = torch.distributed.new_group([0, 1])
    net = FSDP(model(), sharding_strategy=strategy, auto_wrap_policy=POLICY)
    net.register_comm_hook(kind(group), hook)
    with pytest.raises(AssertionError, match="already registered"):
        net.register_comm_hook(None, hook)
    return losses(net, 5, rank, 2)


@pytest.mark.parametrize("strategy, hook, kind, within", (
    (ShardingStrategy.FULL_SHARD, default_hooks.reduce_scatter_hook, default_hooks.DefaultState, 1e-6),
    (ShardingStrategy.NO_SHARD, default_hooks.allreduce_hook, default_hooks.DefaultState, 1e-6),
    (ShardingStrategy.SHARD_GRAD_OP, default_hooks.bf16_compress_hook, default_hooks.LowPrecisionState, 2e-2),
    (ShardingStrategy.NO_SHARD, default_hooks.fp16_compress_hook, default_hooks.LowPrecisionState, 2e-2)))
def test_hooks_average_gradients(strategy, hook, kind, within):
    expected = losses(model(), 5)
    for found in run(2, hooked, strategy, hook, kind):
        assert found == pytest.approx(expected, abs=within)


def test_a_hook_is_all_that_travels():
    def member(rank):
        net, seen = FSDP(nn.Linear(3, 2, bias=False)), []

        def hook(state, gradients, output):
            seen.append((state, gradients.shape, output.shape))
            output.fill_(7.0)
        with pytest.raises(ValueError, match="callable"):
            net.register_comm_hook(None, 3)
        net.register_comm_hook("state", hook)
        net(torch.ones(1, 3)).sum().backward()
        assert seen == [("state", (6,), (3,))]
        return net.weight.grad.full_tensor().tolist()
    assert run(2, member) == [[[7.0] * 3] * 2] * 2

    def refused(rank):
        net = FSDP(nn.Linear(3, 2), sharding_strategy=ShardingStrategy.HYBRID_SHARD)
        with pytest.raises(AssertionError, match="hybrid"):
            net.register_comm_hook(None, lambda *given: None)
        inner = FSDP(nn.Sequential(FSDP(nn.Linear(3, 2))))
        inner.check_is_root()
        with pytest.raises(AssertionError, match="root"):
            inner.module[0].register_comm_hook(None, lambda *given: None)
    run(2, refused)


def test_a_log_tells_what_travels_together(caplog):
    import logging

    def member(rank):
        net = model()
        fully_shard(net[2], mesh=init_device_mesh("cpu", (2,)))
        fully_shard(net, mesh=init_device_mesh("cpu", (2,)))
        net(data(0)[0]).sum().backward()
    with caplog.at_level(logging.DEBUG, logger="rushlight.buckets"):
        threads.run(2, member)
    told = [record.getMessage() for record in caplog.records]
    for nbytes in (224, 236):  # of the inner layer, and of what is left
        assert told.count(f"fully_shard of Sequential: 4 parameters, {{'float32': {nbytes}}} bytes, travel together "
                          "among 2 processes") == 2
    assert sum("parameters come" in line for line in told) >= 4 and sum("are summed" in line for line in told) == 4


@pytest.mark.parametrize("shape", [(1, 6), (1,), (3, 1), (1, 1)])
@pytest.mark.parametrize("ranks", [2, 3])
def test_parameters_of_fewer_rows_than_ranks(shape, ranks):
    """What wraps, detaches or updates a parameter leaves its parts where they are: forward, clipping, an optimizer and
    loading agree with one process."""
    def trained(layer, sharded=False):
        if sharded:
            fully_shard(layer)
        optimizer = torch.optim.AdamW(layer.parameters(), 0.1)
        for step in range(2):
            optimizer.zero_grad()
            layer(step + 1.0).backward()
            torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
            optimizer.step()
        return layer

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.arange(float(torch.Size(shape).numel())).reshape(shape) + 1)

        def forward(self, x):
            return (self.weight * x).square().sum()

    expected = trained(Layer())

    def member(rank):
        layer = trained(Layer(), True)
        part = layer.weight.to_local()
        for other in (layer.weight.detach(), torch.nn.Parameter(layer.weight), layer.weight.data, layer.weight.clone()):
            assert other.placements == layer.weight.placements and other.to_local().shape == part.shape
        torch.testing.assert_close(layer.weight.full_tensor(), expected.weight.detach())
        other = Layer()
        fully_shard(other)
        other.load_state_dict(layer.state_dict())
        torch.testing.assert_close(other.weight.full_tensor(), expected.weight.detach())
    run(ranks, member)
