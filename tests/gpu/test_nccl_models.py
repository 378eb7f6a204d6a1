"""Models in several processes, of which each has a GPU: as on the host, bit for bit.  Kernels are run by Triton's
interpreter, exchanges done by a library that stands in."""
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import threads
from rushlight.distributed.nccl import library as libraries

from .peers import connected

nn = rl.nn


@pytest.fixture
def peers(gpu, monkeypatch, tmp_path):
    made = connected(monkeypatch, tmp_path, gpu[1])
    yield made
    made.end()
    libraries.library.cache_clear()
    assert made.failure is None, made.failure
    assert made.left() == 0


def both(function, *args) -> tuple:
    """What ``function(rank, kind of device)`` gives in two ranks, on the host and on GPUs."""
    def member(rank):
        rl.cuda.set_device(rank)
        return function(rank, "cuda", *args)
    return threads.run(2, function, "cpu", *args), threads.run(2, member, backend="nccl")


def model(kind):
    made = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4))
    made.load_state_dict({k: rl.linspace(-1, 1, v.numel()).reshape(v.shape) for k, v in made.state_dict().items()})
    return made.to(kind)


def batch(rank, step, kind):
    return (rl.linspace(-1, 1, 12).reshape(3, 4) * (rank + 1 + step)).to(kind)


def trained(net, rank, kind, steps=2) -> list:
    optimizer, losses = rl.optim.SGD(net.parameters(), lr=0.1), []
    for step in range(steps):
        loss = net(batch(rank, step, kind)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def numbers(tensor) -> list:
    whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return whole.detach().cpu().flatten().tolist()


def data_parallel(rank, kind, view, hook):
    net = nn.parallel.DistributedDataParallel(model(kind), device_ids=None if kind == "cpu" else [rank],
                                              gradient_as_bucket_view=view, bucket_cap_mb=1e-4)
    if hook:
        from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
        net.register_comm_hook(dist.group.WORLD, allreduce_hook)
    return trained(net, rank, kind), numbers(net.module[0].weight)


@pytest.mark.parametrize("view, hook", [(False, False), (True, True)])
def test_data_parallel(peers, view, hook):
    ours, theirs = both(data_parallel, view, hook)
    assert ours == theirs
    assert peers.asked("ncclAllReduce") and peers.asked("ncclBroadcast")


def test_where_a_model_is_to_lie(peers):
    def member(rank):
        rl.cuda.set_device(0)
        for given in ([1], [0, 1]):
            with pytest.raises(ValueError, match="device_ids"):
                nn.parallel.DistributedDataParallel(model("cuda"), device_ids=given)
        with pytest.raises(ValueError, match="single-device"):
            nn.parallel.DistributedDataParallel(model("cpu"), device_ids=[0])
        return nn.parallel.DistributedDataParallel(model("cuda"), device_ids=["cuda:0"]).join_device

    assert threads.run(1, member, backend="nccl") == [rl.device("cuda:0")]


def test_fully_sharded(peers):
    def member(rank, kind):
        net, mesh = model(kind), dist.init_device_mesh(kind, (2,))
        for layer in (net[0], net[2], net):
            dist.fsdp.fully_shard(layer, mesh=mesh)
        return trained(net, rank, kind), numbers(net[0].weight), net[0].weight.device.type == kind

    ours, theirs = both(member)
    assert ours == theirs and peers.asked("ncclAllGather") and peers.asked("ncclReduceScatter")


def test_tensor_parallel(peers):
    from rushlight.distributed.tensor import Shard, distribute_tensor
    from rushlight.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    def member(rank, kind):
        mesh = dist.init_device_mesh(kind, (2,))
        net = parallelize_module(model(kind), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        net(batch(0, 0, kind)).square().mean().backward()
        x = distribute_tensor(rl.arange(8.0).reshape(4, 2), mesh, [Shard(0)])
        return (numbers(net[0].weight.grad), numbers((x * 2).sum()), x.device.type == kind,
                x.redistribute(placements=[Shard(1)]).to_local().cpu().tolist())

    ours, theirs = both(member)
    assert ours == theirs


def collectives(rank, kind, compiled):
    from rushlight.distributed import _functional_collectives as functional
    x = (rl.arange(4.0) + rank).to(kind).requires_grad_()
    group = dist.group.WORLD

    def given(x):
        return (functional.all_reduce(x * 2, "sum", group), functional.all_gather_tensor(x, 0, group),
                functional.reduce_scatter_tensor(x, "avg", 0, group), functional.broadcast(x, 1, group),
                functional.all_to_all_single(x, [2, 2], [2, 2], group))

    found = (rl.compile(given) if compiled else given)(x)
    sum((t * t).sum() for t in found).backward()
    return [numbers(t) for t in (*found, x.grad)]


@pytest.mark.parametrize("compiled", [False, True])
def test_collectives_that_return(peers, compiled):
    """The device's memory is read and written where it lies."""
    from rushlight._src.devices.shared.host import HostStep
    before = sum(HostStep.runs.values())
    ours, theirs = both(collectives, compiled)
    assert ours == theirs
    names = {note[0] for note in peers.notes}
    assert {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast", "ncclSend"} <= names
    assert sum(HostStep.runs.values()) - before <= 2  # of the sum in one rank, whose others are zeros


def test_whole_states(peers):
    from rushlight.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict,
                                                             set_model_state_dict)

    def member(rank, kind):
        net = dist.fsdp.fully_shard(nn.Linear(2, 4).to(kind), mesh=dist.init_device_mesh(kind, (2,)))
        state = {"weight": rl.arange(8.0).reshape(4, 2), "bias": rl.ones(4)} if rank == 0 else {}
        set_model_state_dict(net, state, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
        whole = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True))
        return numbers(net.weight), {k: numbers(v) for k, v in whole.items()}

    ours, theirs = both(member)
    assert ours == theirs


def pipeline(rank, kind):
    from rushlight.distributed.pipelining import PipelineStage, ScheduleGPipe
    net = model(kind)
    part = net[:1] if rank == 0 else net[1:]
    place = rl.device(kind, rank) if kind == "cuda" else rl.device(kind)
    stage = PipelineStage(part, rank, 2, place)
    schedule, losses = ScheduleGPipe(stage, 3, loss_fn=lambda y, t: (y - t).square().mean()), []
    if rank == 0:
        schedule.step(batch(0, 0, kind))
    else:
        schedule.step(target=rl.zeros(3, 4).to(kind), losses=losses)
    return numbers(part[0].weight.grad if rank == 0 else part[1].weight.grad), [loss.item() for loss in losses]


def test_pipelines(peers):
    ours, theirs = both(pipeline)
    assert ours == theirs
