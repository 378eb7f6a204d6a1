"""Checkpoints that a process beside each rank writes: training goes on, and where one is killed the error is told to
all, an older checkpoint stays whole, and the next one is written."""
import os
import random
import signal
import time

import pytest

import rushlight as torch
import rushlight.distributed.checkpoint as dcp
from rushlight import distributed as dist
from rushlight.distributed import threads, worlds
from rushlight.distributed.checkpoint.staging import DefaultStager, StagingOptions
from rushlight.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, AsyncSaveResponse
from rushlight.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

from .kills import found, state

KINDS = ("float32", "float64", "bfloat16", "float16", "float8_e4m3fn", "int64", "int8", "uint8", "bool", "complex64")


def saved(values, folder, **how):
    return dcp.async_save(values, checkpoint_id=folder, async_checkpointer_type=AsyncCheckpointerType.PROCESS, **how)


@pytest.fixture
def alone():
    """What the process that writes for this one is known by.  It is started by a test, and ended after it."""
    yield lambda: worlds.here().savers[None]
    saver = worlds.here().savers.pop(None, None)
    if saver is not None:
        saver.end()
        assert saver.ended() in (0, -signal.SIGKILL)


def kill(saver):
    """Kills a process of ours, for which nobody else waits while it lives."""
    assert saver.alive()
    os.kill(saver.process.pid, signal.SIGKILL)
    saver.ended()


class Planner(dcp.DefaultSavePlanner):
    """Refuses some names."""

    def create_local_plan(self):
        if any(name.startswith("refused") for name in self.state_dict):
            raise KeyError("refused")
        return super().create_local_plan()


def test_values_of_all_kinds(tmp_path, alone):
    """Written over after the call, and read back: tensors of all dtypes and strides, views of one memory, objects."""
    column = torch.arange(6.0).reshape(2, 3)
    values = {kind: torch.arange(5).to(getattr(torch, kind)) for kind in KINDS}
    values |= {"column": column[:, 1], "turned": column.t(), "scalar": torch.tensor(2.5), "empty": torch.empty(0, 3),
               "parameter": torch.nn.Parameter(torch.ones(3)), "numbers": [1, {"two": 2.5}], "name": "x",
               "sparse": torch.eye(3).to_sparse()}
    expected = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in values.items()}
    done = saved(values, tmp_path / "a", no_dist=True)
    saver = alone()
    for name in (*KINDS, "turned"):
        values[name].zero_()
    assert {name.partition(".")[0] for name in done.result().state_dict_metadata} == set(values)
    into = {name: torch.zeros_like(value) if isinstance(value, torch.Tensor) and name != "sparse" else None
            for name, value in expected.items()}
    into["numbers"] = [0, {"two": 0}]
    dcp.load({name: value for name, value in into.items() if name != "sparse"}, checkpoint_id=tmp_path / "a",
             no_dist=True)
    for name, value in expected.items():
        if isinstance(value, torch.Tensor) and name != "sparse":
            assert torch.equal(into[name].float() if value.dtype.itemsize == 1 else into[name],
                               value.float() if value.dtype.itemsize == 1 else value), name
    assert into["numbers"] == expected["numbers"]
    saved({"w": torch.ones(1)}, tmp_path / "b", no_dist=True).result()
    assert alone() is saver  # it is started once


def test_stagers(tmp_path, alone):
    """Those of others copy first; their copy goes to the process."""
    values, stager = {"w": torch.ones(4)}, DefaultStager(StagingOptions(use_async_staging=True))
    answer = saved(values, tmp_path / "a", no_dist=True, async_stager=stager)
    assert isinstance(answer, AsyncSaveResponse)
    assert answer.staging_completion.result()["w"].tolist() == [1.0] * 4
    stager.close()
    answer.upload_completion.result()
    writer = dcp.FileSystemWriter(tmp_path / "b", cache_staged_state_dict=True)
    for number in range(2):
        done = saved({"w": torch.full((4,), float(number))}, None, no_dist=True, storage_writer=writer)
    done.result()
    into = {"w": torch.zeros(4)}
    dcp.load(into, checkpoint_id=tmp_path / "b", no_dist=True)
    assert into["w"].tolist() == [1.0] * 4


def test_errors_of_the_checkpoint_leave_the_process_alone(tmp_path, alone):
    dcp.save({"w": torch.ones(1)}, checkpoint_id=tmp_path, no_dist=True)
    with pytest.raises(dcp.CheckpointException, match="already exists"):
        saved({}, None, no_dist=True, storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False)).result()
    saver = alone()
    with pytest.raises(dcp.CheckpointException, match="KeyError: 'refused'"):
        saved({"refused": torch.ones(1)}, tmp_path, no_dist=True, planner=Planner()).result()
    assert saved({"w": torch.ones(1)}, tmp_path, no_dist=True, planner=Planner()).result() and alone() is saver
    with pytest.raises(Exception, match="lambda"):
        saved({"w": lambda: 0}, tmp_path, no_dist=True)
    assert saved({"w": torch.ones(1)}, tmp_path, no_dist=True).result() and alone() is not saver


def cut(mesh, value):
    return distribute_tensor(torch.full((6, 4), float(value)), mesh, [Shard(0), Shard(1)])


def test_a_world_whose_processes_are_killed(tmp_path):
    """The checkpoint that was under way is refused in all ranks, or whole; later ones are written."""
    def member(rank):
        mesh, story = init_device_mesh("cpu", (1, 2)), []
        into = {"x": distribute_tensor(torch.zeros(6, 4), mesh, [Replicate(), Shard(0)]), f"own {rank}": torch.zeros(2)}

        def save(number):
            try:
                saved({"x": cut(mesh, number), f"own {rank}": torch.full((2,), float(number))}, tmp_path).result()
                return number
            except (RuntimeError, dcp.CheckpointException) as error:
                return str(error)

        def held():
            dcp.load(into, checkpoint_id=tmp_path)
            return {*into["x"].full_tensor().unique().tolist(), *into[f"own {rank}"].tolist()}
        story += [save(1), held()]
        saver, = worlds.here().savers.values()
        if rank == 1:
            kill(saver)
        dist.barrier()
        story += [save(2), held()]  # the processes of both are started anew
        saver, = worlds.here().savers.values()
        if rank == 0:
            os.kill(saver.process.pid, signal.SIGSTOP)  # it neither answers nor has ended
        dist.barrier()
        if rank == 0:
            done = saved({"x": cut(mesh, 3), "own 0": torch.full((2,), 3.0)}, tmp_path)
            kill(saver)
            with pytest.raises(RuntimeError, match="SIGKILL"):
                done.result()
            story.append(None)
        else:
            story.append(save(3))
        dist.barrier()
        story += [held(), save(4), held()]
        last, = worlds.here().savers.values()
        return story, last
    for rank, (story, saver) in enumerate(threads.run(2, member)):
        assert story[:4] == [1, {1.0}, 2, {2.0}] and story[5:] == [{2.0}, 4, {4.0}]
        assert rank == 0 or "rank 0 of the group has ended" in story[4]
        assert saver.ended() == 0  # it has left with its world


@pytest.mark.parametrize("count", (2, pytest.param(25, marks=pytest.mark.long)))
def test_killed_at_any_moment(count, tmp_path, alone):
    """A process that writes one checkpoint over another is killed: the folder holds the last one that was told to be
    whole, or the one after it."""
    draw, number, whole = random.Random(count), 0, 0
    for _ in range(count):
        pending = []
        for _ in range(40):
            number += 1
            pending.append((number, saved({**state(number, 0), **state(number, 1)}, tmp_path, no_dist=True)))
            if len(pending) == 3:
                pending[0][1].result()
                time.sleep(draw.uniform(0.0, 0.05))
                kill(alone())
                break
        for each, done in pending:
            error = done.exception()
            assert error is None or isinstance(error, RuntimeError)
            whole = each if error is None else whole
        kept, = found(tmp_path, 2)
        assert kept in (whole, whole + 1)
        number = kept
