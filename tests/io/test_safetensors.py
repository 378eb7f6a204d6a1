"""safetensors files: our reader and writer against the package's, and the package on top of Rushlight."""
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight.utils import safetensors as ours

from ..startup.machine_code import search_path

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("safetensors.torch")
ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
         "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"]


def sample(t):
    named = {name: t.arange(-3, 9).reshape(3, 4).to(getattr(t, name)) for name in NAMES}
    return {**named, "scalar": t.tensor(1.5), "empty": t.zeros(0, 3), "transposed": t.arange(6.0).reshape(2, 3).t()}


def same(a, b):
    assert sorted(a) == sorted(b)
    for name in a:
        assert str(a[name].dtype) == str(b[name].dtype) and tuple(a[name].shape) == tuple(b[name].shape)
        assert a[name].tolist() == b[name].tolist(), name


def test_we_write_they_read(tmp_path):
    ours.save_file(sample(rl), tmp_path / "a.safetensors", {"format": "pt"})
    same(sample(torch), theirs.load_file(tmp_path / "a.safetensors"))
    assert ours.metadata_of(tmp_path / "a.safetensors") == {"format": "pt"}


def test_they_write_we_read(tmp_path):
    theirs.save_file({k: v.contiguous() for k, v in sample(torch).items()}, tmp_path / "a.safetensors")
    same(sample(rl), ours.load_file(tmp_path / "a.safetensors"))


def test_writing_to_a_loaded_tensor_leaves_the_file(tmp_path):
    ours.save_file({"x": rl.zeros(4)}, tmp_path / "a.safetensors")
    loaded = ours.load_file(tmp_path / "a.safetensors")["x"]
    loaded.add_(1)
    assert loaded.tolist() == [1] * 4
    assert ours.load_file(tmp_path / "a.safetensors")["x"].tolist() == [0] * 4


@pytest.mark.parametrize("keep", [0, 7, 9, 60, -1])
def test_truncated(tmp_path, keep):
    ours.save_file(sample(rl), tmp_path / "a.safetensors")
    (tmp_path / "b").write_bytes((tmp_path / "a.safetensors").read_bytes()[:keep])
    with pytest.raises(RuntimeError, match="601"):
        ours.load_file(tmp_path / "b")
    with pytest.raises(FileNotFoundError):
        ours.load_file(tmp_path / "none")


@pytest.mark.parametrize("entry", [
    {"dtype": "F32", "shape": [4], "data_offsets": [0, 12]}, {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]},
    {"dtype": "F32", "shape": [1 << 60, 16], "data_offsets": [0, 16]},
    {"dtype": "F99", "shape": [4], "data_offsets": [0, 16]},
    {"dtype": "F32", "shape": [4], "data_offsets": [16, 32]}, {"dtype": "F32", "shape": [4], "data_offsets": [-16, 0]},
    {"dtype": "F32", "shape": "4", "data_offsets": [0, 16]}, {"dtype": "F32"}, 7])
def test_false_descriptions(tmp_path, entry):
    text = json.dumps({"x": entry}).encode()
    (tmp_path / "a").write_bytes(len(text).to_bytes(8, "little") + text + bytes(16))
    with pytest.raises(RuntimeError, match="601"):
        ours.load_file(tmp_path / "a")


def test_damage_anywhere_in_the_header_is_no_crash(tmp_path):
    ours.save_file({"x": rl.arange(4.0), "y": rl.ones(2, dtype=rl.bool)}, tmp_path / "a")
    whole, random_ = (tmp_path / "a").read_bytes(), random.Random(0)
    for _ in range(300):
        data = bytearray(whole)
        data[random_.randrange(len(data) - 18)] = random_.randrange(256)
        (tmp_path / "b").write_bytes(data)
        try:
            for tensor in ours.load_file(tmp_path / "b").values():
                tensor.tolist()
        except RuntimeError as error:
            assert "601" in str(error)


def test_a_failed_save_leaves_the_old_file(tmp_path):
    ours.save_file({"x": rl.ones(2)}, tmp_path / "a")
    for bad in ({"x": 1}, {1: rl.ones(1)}):
        with pytest.raises(TypeError):
            ours.save_file(bad, tmp_path / "a")
    with pytest.raises(TypeError):
        ours.save_file({"x": rl.zeros(2)}, tmp_path / "a", {"n": 1})
    assert ours.load_file(tmp_path / "a")["x"].tolist() == [1, 1] and os.listdir(tmp_path) == ["a"]


PROGRAM = """
import sys, torch
from safetensors import safe_open
from safetensors.torch import load_file, load_model, save_file, save_model
path = sys.argv[1]
assert "rushlight" in torch.__file__, torch.__file__
tensors = {"a": torch.arange(12.0).reshape(3, 4), "b": torch.ones(2, dtype=torch.bfloat16), "c": torch.arange(3)}
save_file(tensors, path, metadata={"k": "v"})
back = load_file(path)
assert all(torch.equal(tensors[k], back[k]) and tensors[k].dtype is back[k].dtype for k in tensors)
with safe_open(path, "pt") as file:
    assert file.metadata() == {"k": "v"} and file.get_slice("a")[1:, :2].tolist() == [[4.0, 5.0], [8.0, 9.0]]
model, again = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4)), torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
model[0].tied = model[0].weight
again[0].tied = again[0].weight
save_model(model, path)
load_model(again, path)
assert torch.equal(model[0].weight, again[0].weight)
view = torch.zeros(4)
try:
    save_file({"x": view[:2], "y": view[1:]}, path)
    raise SystemExit("shared memory was accepted")
except RuntimeError as error:
    assert "share" in str(error)
print("done")
"""


def test_the_package_runs_on_rushlight(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "rushlight", str(tmp_path / "program.py"),
                           str(tmp_path / "x.safetensors")], capture_output=True, text=True,
                          timeout=900, env={**os.environ, "PYTHONPATH": search_path(ROOT)})
    assert done.stdout.strip() == "done", done.stderr


def test_bytes_in_an_older_pickle_are_plain_data(tmp_path):
    import rushlight
    # written as codecs.encode of a text
    rushlight.save({"state": b"\x00\xff"}, tmp_path / "saved.pt", pickle_protocol=2)
    assert rushlight.load(tmp_path / "saved.pt", weights_only=True) == {"state": b"\x00\xff"}
