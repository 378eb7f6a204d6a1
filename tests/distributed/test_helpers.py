"""Helpers of groups and of checkpoints: values that one process makes for all, walks through states, files of one
process for many."""
import datetime

import pytest
import torch as theirs
import torch.distributed.checkpoint._traverse as their_walk

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import checkpoint, collective_utils, threads
from rushlight.distributed.checkpoint import _traverse
from rushlight.distributed.checkpoint.format_utils import BroadcastingTorchSaveReader, DynamicMetaLoadPlanner
from rushlight.distributed.tensor import Shard, distribute_tensor, init_device_mesh

PATIENCE = datetime.timedelta(minutes=10)


def test_what_one_process_makes_for_all():
    def member(rank):
        group, calls = dist.group.WORLD, []
        found = collective_utils.broadcast(lambda: calls.append(rank) or rank * 10, rank=1, pg=group)
        every = collective_utils.all_gather(lambda: rank * rank, pg=group)
        return found, every, calls
    assert threads.run(3, member) == [(10, [0, 1, 4], [1] if rank == 1 else []) for rank in range(3)]


def test_an_error_of_one_is_an_error_of_all():
    def failing(rank):
        raise KeyError("gone")

    def member(rank):
        with pytest.raises(RuntimeError, match="Rank 1 failed: stage reading: exception 'gone'") as seen:
            collective_utils.broadcast(lambda: failing(rank), rank=1, pg=dist.group.WORLD, stage_name="reading")
        assert isinstance(seen.value.__cause__, KeyError)
        with pytest.raises(RuntimeError, match="Rank 0 failed"):
            collective_utils.all_gather(lambda: failing(rank) if rank == 0 else 1, pg=dist.group.WORLD)
        with pytest.raises(AssertionError):
            collective_utils.broadcast(3, success=False, pg=dist.group.WORLD)
    threads.run(2, member)
    with pytest.raises(RuntimeError, match="gone"):
        collective_utils.broadcast(lambda: failing(0))
    assert collective_utils.broadcast(4) == 4 and collective_utils.all_gather(4) == [4]


def states(library):
    x = library.ones(1)
    return [{"a": 1, "b": [1, 2], "c": {1: 2, 2: {"d": x}}, "e": x},
            {"a": [x, [33, x, [44, 55]], [66, 77]]}, {"a": [{"b": {"c": x}}]}, {"a": {"b": [], "c": {}}},
            {"a": (1, x), "b": ((1, 2), 3), "d": [[x]], "e": [{"f": 1}]}]


@pytest.mark.parametrize("which", range(5))
def test_walks_go_where_pytorchs_go(which):
    def walked(walk, state):
        seen = []
        walk.traverse_state_dict(state, lambda path, value: seen.append((path, str(value))))
        found = [str(walk.get_element(state, path, "none")) for path, _ in seen]
        return seen, found, [walk.get_element(state, path, 7) for path in (("z",), ("a", 9), ("a", "z"), ("a", 0, "q"))]
    assert walked(_traverse, states(torch)[which]) == walked(their_walk, states(theirs)[which])


def test_a_file_of_one_process_is_loaded_in_parts(tmp_path):
    file = tmp_path / "weights.pt"
    whole = {"w": torch.arange(10.0).reshape(5, 2), "layer.b": torch.arange(3.0), "half": torch.ones(2)}
    theirs.save({name: theirs.tensor(value.tolist()) for name, value in whole.items()}, file)

    def member(rank):
        mesh = init_device_mesh("cpu", (4,))
        state = {"w": distribute_tensor(torch.zeros(5, 2), mesh, [Shard(0)]), "layer": {"b": torch.zeros(3)},
                 "half": torch.zeros(2, dtype=torch.bfloat16)}
        how = {"checkpoint_id": file, "storage_reader": BroadcastingTorchSaveReader(),
               "planner": DynamicMetaLoadPlanner()}
        checkpoint.load(state, **how)
        found = state["w"].full_tensor().tolist(), state["layer"]["b"].tolist(), state["half"].tolist()
        with pytest.raises(checkpoint.api.CheckpointException, match="other is not in"):
            checkpoint.load({"other": torch.zeros(2)}, **how)
        with pytest.raises(checkpoint.api.CheckpointException, match="size"):
            checkpoint.load({"half": torch.zeros(3)}, **how)
        with pytest.raises(checkpoint.api.CheckpointException, match="Non-tensor"):
            checkpoint.load({"half": 3}, **how)
        return found
    for found in threads.run(4, member, timeout=PATIENCE):
        assert found == (whole["w"].tolist(), [0.0, 1.0, 2.0], [1.0, 1.0])
