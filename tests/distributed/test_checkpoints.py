"""Checkpoints in folders: PyTorch reads ours and we read its, an older one stays whole until a newer one is, and
metadata run nothing."""
from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import Future
from pathlib import Path

import pytest

import rushlight as rl
import rushlight.distributed.checkpoint as dcp
from rushlight import distributed as dist
from rushlight.distributed import threads
from rushlight.distributed.checkpoint import hf_storage, metadata_file, state_dict_loader
from rushlight.distributed.checkpoint._nested_dict import flatten_state_dict, unflatten_state_dict
from rushlight.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from rushlight.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp

from .groups import finished

KINDS = ("float32", "float64", "bfloat16", "float16", "int64", "uint8", "bool", "complex64")


@pytest.fixture
def judge():
    return pytest.importorskip("torch")


def state(torch):
    tensors = {kind: torch.arange(12).reshape(3, 4).to(getattr(torch, kind)) for kind in KINDS}
    return {"tensors": tensors, "strided": torch.arange(6.0).reshape(2, 3).t(),
            "column": torch.arange(6.0).reshape(2, 3)[:, 1], "scalar": torch.tensor(2.5),
            "empty": torch.empty(0, 3), "nested": [torch.ones(2), {"x": torch.zeros(1), "n": 3}],
            "numbers": [1, 2.5, "a"], "none": None}


def zeroed(torch, value):
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    if isinstance(value, dict):
        return {k: zeroed(torch, v) for k, v in value.items()}
    return [zeroed(torch, v) for v in value] if isinstance(value, list) else 0


def same(mine, other) -> bool:
    if hasattr(mine, "tolist"):
        return mine.tolist() == other.tolist() and str(mine.dtype) == str(other.dtype) and tuple(mine.shape) == tuple(
            other.shape)
    if isinstance(mine, dict):
        return mine.keys() == other.keys() and all(same(mine[k], other[k]) for k in mine)
    if isinstance(mine, (list, tuple)):
        return len(mine) == len(other) and all(map(same, mine, other))
    return mine == other


@pytest.mark.parametrize("direction", ("ours to theirs", "theirs to ours", "ours to ours"))
def test_files_of_both(direction, tmp_path, judge):
    torch_dcp = pytest.importorskip("torch.distributed.checkpoint")
    kinds = {"ours": (rl, dcp), "theirs": (judge, torch_dcp)}
    (writer, save), (reader, load) = (kinds[name] for name in direction.split(" to "))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save.save(state(writer), checkpoint_id=str(tmp_path), no_dist=True)
        found = zeroed(reader, state(reader))
        load.load(found, checkpoint_id=str(tmp_path), no_dist=True)
    assert same(found, state(rl))


def test_metadata_are_pytorchs(tmp_path, judge):
    """What PyTorch reads of our metadata equals what it writes itself, but for places and names of saves."""
    torch_dcp = pytest.importorskip("torch.distributed.checkpoint")
    found = []
    for name, torch, save in (("a", rl, dcp), ("b", judge, torch_dcp)):
        save.save(state(torch), checkpoint_id=str(tmp_path / name), no_dist=True)
        with open(tmp_path / name / ".metadata", "rb") as file:
            found.append(pickle.load(file))
    ours, theirs = found
    assert ours.state_dict_metadata == theirs.state_dict_metadata and list(ours.state_dict_metadata) == list(
        theirs.state_dict_metadata)
    assert ours.planner_data == theirs.planner_data and ours.version == theirs.version
    assert ours.storage_data.keys() == theirs.storage_data.keys()


def test_metadata_by_the_names_of_pytorchs_sharded_tensors(tmp_path, judge):
    """Tensors of older checkpoints are described by classes of torch.distributed._shard."""
    place = "torch.distributed._shard.sharded_tensor.metadata"
    properties = pytest.importorskip(place).TensorProperties
    pytest.importorskip("torch.distributed.checkpoint").save({"w": judge.ones(2, 3)}, checkpoint_id=tmp_path,
                                                             no_dist=True)
    with open(tmp_path / ".metadata", "rb") as file:
        found = pickle.load(file)
    found.state_dict_metadata["w"].properties = made = properties(dtype=judge.float32, requires_grad=True)
    with open(tmp_path / ".metadata", "wb") as file:
        pickle.dump(found, file)
    assert type(made).__module__ == place and place.encode() in (tmp_path / ".metadata").read_bytes()
    metadata = FileSystemReader(tmp_path).read_metadata()
    assert metadata.state_dict_metadata["w"].properties.dtype is rl.float32
    assert metadata.state_dict_metadata["w"].properties.requires_grad
    values = {"w": rl.zeros(2, 3)}
    dcp.load(values, checkpoint_id=tmp_path, no_dist=True)
    assert values["w"].tolist() == [[1.0] * 3] * 2


def test_training_goes_on(tmp_path):
    def made():
        rl.manual_seed(0)
        model = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.ReLU(), rl.nn.Linear(4, 1))
        return model, rl.optim.AdamW(model.parameters(), lr=0.1)

    def steps(model, optimizer, count):
        for k in range(count):
            optimizer.zero_grad()
            model(rl.full((2, 3), k + 1.0)).sum().backward()
            optimizer.step()
        return model(rl.ones(1, 3)).item()

    from rushlight.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    model, optimizer = made()
    steps(model, optimizer, 3)
    dcp.save(dict(zip(("model", "optim"), get_state_dict(model, optimizer))), checkpoint_id=tmp_path, no_dist=True)
    expected = steps(model, optimizer, 3)
    model, optimizer = made()
    found = dict(zip(("model", "optim"), get_state_dict(model, optimizer)))
    dcp.load(found, checkpoint_id=tmp_path, no_dist=True)
    set_state_dict(model, optimizer, model_state_dict=found["model"], optim_state_dict=found["optim"])
    assert steps(model, optimizer, 3) == expected


def test_objects_with_states(tmp_path):
    model = rl.nn.Linear(2, 2)
    dcp.save({"model": model}, checkpoint_id=tmp_path, no_dist=True)
    other = rl.nn.Linear(2, 2)
    dcp.load({"model": other}, checkpoint_id=tmp_path, no_dist=True)
    assert rl.equal(model.weight, other.weight)
    assert same(state_dict_loader._load_state_dict_from_keys("model", checkpoint_id=tmp_path),
                {"model": dict(model.state_dict())})


def test_several_files(tmp_path):
    value = {str(k): rl.full((k + 1,), float(k)) for k in range(9)}
    for options in ({"thread_count": 3}, {"single_file_per_rank": False}, {"sync_files": False}):
        dcp.save(value, storage_writer=FileSystemWriter(tmp_path, **options), no_dist=True)
        found = {k: rl.zeros_like(v) for k, v in value.items()}
        dcp.load(found, storage_reader=FileSystemReader(tmp_path), no_dist=True)
        assert same(found, value)
    assert len(os.listdir(tmp_path)) == 2  # files of older checkpoints are gone


def test_a_copy_is_written_meanwhile(tmp_path):
    value = {"w": rl.ones(4), "n": [1, 2]}
    done = dcp.async_save(value, checkpoint_id=tmp_path, no_dist=True)
    value["w"].zero_()
    assert sorted(done.result().state_dict_metadata) == ["n", "w"]
    found = {"w": rl.zeros(4), "n": 0}
    dcp.load(found, checkpoint_id=tmp_path, no_dist=True)
    assert found["w"].tolist() == [1.0] * 4 and found["n"] == [1, 2]


def test_copies_are_written_in_a_group_of_their_own(tmp_path):
    """What threads send while they write never meets what training sends, in whatever order each rank comes to it."""
    class Late(FileSystemWriter):
        """A writer that begins once it is told."""

        def __init__(self, path, begin):
            super().__init__(path)
            self.begin = begin

        def prepare_local_plan(self, plan):
            assert self.begin.wait(60)
            return super().prepare_local_plan(plan)

    def member(rank):
        begin, sums = threading.Event(), []
        if rank == 0:
            begin.set()  # the thread of rank 0 sends its plan before the others', and before or while training sends
        first = dcp.async_save({"w": rl.ones(4)}, storage_writer=Late(tmp_path / "first", begin))
        second = dcp.async_save({"w": rl.ones(4) * 2}, storage_writer=FileSystemWriter(tmp_path / "second"))
        for step in range(3):
            total = rl.ones(1) * (rank + step)
            dist.all_reduce(total)
            sums.append(total.item())
        assert rank == 0 or not first.done() and not second.done()
        begin.set()
        assert isinstance(first, Future) and isinstance(second, Future)
        for done in (second, first):
            assert list(done.result(60).state_dict_metadata) == ["w"]
        third = dcp.async_save({"w": rl.ones(4) * 3}, checkpoint_id=tmp_path / "third",
                               process_group=dist.new_group([rank], use_local_synchronization=True)) if rank else None
        return sums, None if third is None else list(third.result(60).state_dict_metadata)

    assert threads.run(2, member) == [([1.0, 3.0, 5.0], None), ([1.0, 3.0, 5.0], ["w"])]
    for name, value in (("first", 1), ("second", 2), ("third", 3)):
        found = {"w": rl.zeros(4)}
        dcp.load(found, checkpoint_id=tmp_path / name, no_dist=True)
        assert found["w"].tolist() == [value] * 4


@pytest.mark.parametrize("wrong, kind", (({"v": rl.zeros(1)}, RuntimeError), ({"w": rl.zeros(3)}, ValueError)))
def test_what_does_not_fit(wrong, kind, tmp_path):
    dcp.save({"w": rl.ones(4)}, checkpoint_id=tmp_path, no_dist=True)
    with pytest.raises(dcp.CheckpointException) as error:
        dcp.load(wrong, checkpoint_id=tmp_path, no_dist=True)
    assert isinstance(error.value.failures[0][0], kind)
    with pytest.raises(dcp.CheckpointException):
        dcp.load(wrong, checkpoint_id=tmp_path / "nowhere", no_dist=True)
    with pytest.raises(dcp.CheckpointException):
        dcp.save({}, storage_writer=FileSystemWriter(tmp_path, overwrite=False), no_dist=True)


KILLED = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")
import rushlight as rl, rushlight.distributed.checkpoint as dcp
number = 0
while True:
    number += 1
    dcp.save({str(k): rl.full((20000,), float(number)) for k in range(8)}, checkpoint_id=sys.argv[1], no_dist=True)
    print(number, flush=True)
"""


@pytest.mark.parametrize("wait", (0.0, 0.003, 0.011, 0.02))
def test_killed_at_any_moment(wait, tmp_path):
    """A process that saves again and again is killed: the folder holds the last checkpoint that was whole, or the next
    one."""
    import time
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        child.stdout.readline(), child.stdout.readline()
        time.sleep(wait)
    finally:
        child.send_signal(signal.SIGKILL)
        last = [2, *map(int, child.stdout.read().split())][-1]
        child.wait()
    found = {str(k): rl.zeros(20000) for k in range(8)}
    dcp.load(found, checkpoint_id=tmp_path, no_dist=True)
    numbers = {v for value in found.values() for v in value.unique().tolist()}
    assert len(numbers) == 1 and numbers.pop() in (last, last + 1)


@pytest.mark.parametrize("count", [2, pytest.param(50, marks=pytest.mark.long)])
def test_no_checkpoint_is_lost(count):
    """Worlds of one process and of two are killed at random moments; each goes on from the last checkpoint."""
    done = finished([sys.executable, "-m", "tests.distributed.kills", "0", str(count)], 1500,
                    cwd=Path(__file__).parents[2])
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(found) == count, done.stderr
    assert not [each for each in found if each["lost"]], found


class Hostile:
    def __init__(self, reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


@pytest.mark.parametrize("value", (Hostile((os.system, ("true",))), Hostile((eval, ("1",))), Hostile((exec, ("1",))),
                                   Hostile((getattr, (1, "real")))))
def test_metadata_run_nothing(value, tmp_path):
    dcp.save({"w": rl.ones(1)}, checkpoint_id=tmp_path, no_dist=True)
    for kind in (value, {"a": value}):
        with open(tmp_path / ".metadata", "wb") as file:
            pickle.dump(kind, file)
        with pytest.raises(pickle.UnpicklingError):
            FileSystemReader(tmp_path).read_metadata()


def test_damaged_metadata(tmp_path):
    """Any prefix of a file, and any byte changed, gives an error or metadata."""
    dcp.save({"w": rl.ones(1), "x": [1]}, checkpoint_id=tmp_path, no_dist=True)
    text = (tmp_path / ".metadata").read_bytes()
    rng = __import__("random").Random(0)
    cases = [text[:rng.randrange(len(text))] for _ in range(60)]
    for _ in range(300):
        at = rng.randrange(len(text))
        cases.append(text[:at] + bytes([rng.randrange(256)]) + text[at + 1:])
    for case in cases:
        try:
            metadata_file.loaded(case)
        except (RuntimeError, pickle.UnpicklingError, MemoryError):
            pass


def test_files_outside_of_the_folder_are_not_read(tmp_path):
    dcp.save({"w": rl.ones(1)}, checkpoint_id=tmp_path, no_dist=True)
    text = (tmp_path / ".metadata").read_bytes().replace(b"__0_0.distcp", b"../x/x.distc")
    with pytest.raises(RuntimeError, match="invalid location"):
        metadata_file.loaded(text)


def test_flat_and_nested():
    value = {"a": {"b": 1, "c": [rl.ones(1), {"d": 2}]}, "e": [3, [4]], "f": (5,)}
    flat, paths = flatten_state_dict(value)
    assert list(flat) == ["a.b", "a.c.0", "a.c.1.d", "e", "f"]
    assert same(unflatten_state_dict(flat, paths), value)


def test_safetensors(tmp_path, judge):
    safetensors = pytest.importorskip("safetensors.torch")
    value = {"a": rl.arange(6.0).reshape(2, 3), "b": rl.ones(2, dtype=rl.bfloat16)}
    dcp.save(value, storage_writer=hf_storage.HuggingFaceStorageWriter(str(tmp_path), {"a": 1, "b": 2}), no_dist=True)
    assert sorted(os.listdir(tmp_path)) == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                            "model.safetensors.index.json"]
    assert safetensors.load_file(tmp_path / "model-00001-of-00002.safetensors")["a"].tolist() == value["a"].tolist()
    found = {k: rl.zeros_like(v) for k, v in value.items()}
    dcp.load(found, storage_reader=hf_storage.HuggingFaceStorageReader(str(tmp_path)), no_dist=True)
    assert same(found, value)


def test_one_file_and_a_folder(tmp_path):
    value = {"a": {"b": rl.ones(2)}, "n": 3}
    rl.save(value, tmp_path / "one.pt")
    torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "folder")
    dcp_to_torch_save(tmp_path / "folder", tmp_path / "two.pt")
    assert same(rl.load(tmp_path / "two.pt"), value)


def test_the_command_line_converts_checkpoints(tmp_path, judge):
    value = {"a": {"b": judge.ones(2)}, "n": 3}
    judge.save(value, tmp_path / "one.pt")
    for library, mode, source, target in (("rushlight", "torch_to_dcp", "one.pt", "ours"),
                                          ("torch", "dcp_to_torch", "ours", "theirs.pt"),
                                          ("rushlight", "dcp_to_torch", "ours", "two.pt"),
                                          ("rushlight", "dcp_to_torch", "absent", "three.pt")):
        done = subprocess.run([sys.executable, "-m", f"{library}.distributed.checkpoint.format_utils", mode,
                               tmp_path / source, tmp_path / target], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert f"using method: '{mode}'" in done.stdout
    assert "No checkpoint found at" in done.stdout and not (tmp_path / "three.pt").exists()
    assert same(rl.load(tmp_path / "theirs.pt"), rl.load(tmp_path / "one.pt"))
    assert same(rl.load(tmp_path / "two.pt"), rl.load(tmp_path / "one.pt"))
