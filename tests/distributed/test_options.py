"""Options of groups of processes and what is built on them."""
import datetime
import threading

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import threads
from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP, OptimStateKeyType
from rushlight.nn.parallel import DistributedDataParallel


def test_collectives_end_after_their_timeout():
    gone = threading.Event()
    short = datetime.timedelta(seconds=0.2)

    def member(rank):
        group, errors = dist.distributed_c10d._get_default_group(), 0
        for call in (lambda t: group.allreduce([t], timeout=short),
                     lambda t: group.allreduce([t], dist.AllreduceOptions(timeout=short))):
            if rank == 0:
                with pytest.raises(RuntimeError, match="Timed out"):
                    call(torch.ones(2)).wait()
                errors += 1
        gone.set() if rank == 0 else gone.wait()
        return errors

    assert threads.run(2, member) == [2, 0]


class Counted(torch.nn.Module):
    """A layer with a buffer of its rank."""

    def __init__(self, rank):
        super().__init__()
        self.inner = torch.nn.Linear(1, 1)
        self.register_buffer("own", torch.tensor([float(rank + 1)]))

    def forward(self, x):
        return self.inner(x) * self.own


@pytest.mark.parametrize("options,at_first,later", [
    ({}, 1, 1), ({"forward_sync_buffers": False}, 1, 8), ({"forward_sync_buffers": True}, 1, 1),
    ({"broadcast_buffers": False}, 2, 8)])
@pytest.mark.filterwarnings("ignore:`broadcast_buffers`")
def test_buffers_are_sent_when_asked_for(options, at_first, later):
    def member(rank):
        model = DistributedDataParallel(Counted(rank), **options)
        found = [model.module.own.item()]
        if rank:
            model.module.own.fill_(8.0)
        model(torch.ones(2, 1)).sum().backward()
        return [*found, model.module.own.item()]
    assert threads.run(2, member)[1] == [at_first, later]


def test_groups_of_device_meshes():
    def member(rank):
        mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
        model = DistributedDataParallel(torch.nn.Linear(1, 1), device_mesh=mesh)
        model(torch.full((1, 1), float(rank))).sum().backward()
        for mesh, group in ((dist.device_mesh.init_device_mesh("cpu", (1, 2)), None), (mesh, model.process_group)):
            with pytest.raises(RuntimeError):
                DistributedDataParallel(torch.nn.Linear(1, 1), device_mesh=mesh, process_group=group)
        with pytest.raises(ValueError, match="need to be set at the same time"):
            DistributedDataParallel(torch.nn.Linear(1, 1), delay_all_reduce_named_params=[])
        return model.module.weight.grad.item()
    assert threads.run(2, member) == [0.5, 0.5]


def test_subgroups_of_a_group():
    def member(rank):
        outer = dist.new_group([0, 2])
        if rank in (0, 2):
            return dist.get_world_size(outer), [dist.get_process_group_ranks(g) for g in dist.new_subgroups(
                1, group=outer)[1] if isinstance(g, dist.ProcessGroup)]
        dist.new_group([0]), dist.new_group([2])  # every process takes part in making a group
        return None
    assert threads.run(3, member)[2] == (2, [[2]])


def test_states_of_optimizers_that_are_given():
    def member(rank):
        model = FSDP(torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Linear(4, 2)))
        optimizer = torch.optim.Adam(list(model.parameters())[::-1])
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        given = optimizer.state_dict()
        own = FSDP.optim_state_dict(model, optimizer)
        given["param_groups"][0]["lr"] = 0.25
        given["state"] = {number: {**state, "step": state["step"] + 7} for number, state in given["state"].items()}
        found = FSDP.optim_state_dict(model, optimizer, given)
        by_number = FSDP.rekey_optim_state_dict(own, OptimStateKeyType.PARAM_ID, model, optim=optimizer)
        same = {name for number, name in enumerate(given["param_groups"][0]["params"])}
        return ([s["step"].item() - own["state"][n]["step"].item() for n, s in found["state"].items()],
                found["param_groups"][0]["lr"], by_number["param_groups"][0]["params"] == sorted(same))
    for gaps, lr, ordered in threads.run(2, member):
        assert gaps == [7.0] * 4 and lr == 0.25 and ordered


def test_stagers_check_types():
    stager = dist.checkpoint.staging.BlockingAsyncStager(type_check=True)
    plain = {"a": torch.ones(2), "b": [1, 2.0, "x", None, (b"y",)]}
    assert stager.stage(plain).keys() == plain.keys()
    for wrong in (object(), {1, 2}, [object()]):
        with pytest.raises(ValueError, match="Unexpected value type"):
            stager.stage({"a": wrong})
        dist.checkpoint.staging.BlockingAsyncStager().stage({"a": wrong})
