"""Packages for WebAssembly, run by Node where that is installed."""
import json
import random
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.packages import wasm
from rushlight._src.packages.archive import FOLDER_OF_HEADERS, Package

from .test_emulated import packaged, same
from .test_packages import MODELS, flat

nn = torch.nn
SCRIPT = FOLDER_OF_HEADERS / "rushlight.mjs"
NODE = shutil.which("node")
runs = pytest.mark.skipif(not NODE, reason="Node is not installed")


def module(path, folder):
    """The module of a package, as a file."""
    with zipfile.ZipFile(path) as file:
        (folder / "model.wasm").write_bytes(file.read("package/data/aotinductor/model/model.wasm"))
        assert file.read("package/include/rushlight.mjs").decode() == SCRIPT.read_text()
    return folder / "model.wasm"


def ran(folder, path, inputs, rows, shapes=None):
    """What Node prints of a run: results, and what it tells of them."""
    for k, x in enumerate(inputs):
        (folder / f"{k}.raw").write_bytes(bytes(x.contiguous().untyped_storage())[:x.nbytes])
    done = subprocess.run([NODE, Path(__file__).with_name("run.mjs"), SCRIPT, module(path, folder), "2",
                           json.dumps(shapes), *(folder / f"{k}.raw" for k in range(len(inputs)))],
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    *lines, told = done.stdout.splitlines()
    told, found = json.loads(told), []
    for line, row, shape, strides in zip(lines, rows, told["shapes"], told["strides"], strict=True):
        half = row["dtype"] == "bfloat16"
        data = np.frombuffer(bytes.fromhex(line), "uint16" if half else row["dtype"])
        data = (data.astype(np.uint32) << 16).view(np.float32) if half else data
        found.append(np.lib.stride_tricks.as_strided(data, shape, [n * data.itemsize for n in strides]))
    return found


@runs
@pytest.mark.parametrize("which", MODELS)
def test_modules_compute_what_the_model_computes(which, tmp_path):
    model, inputs, rows = packaged(which, tmp_path / "model.pt2", "wasm32")
    found = ran(tmp_path, tmp_path / "model.pt2", inputs, rows)
    if which == "bfloat16":
        np.testing.assert_allclose(found[0], flat(model(*inputs))[0], rtol=2e-2, atol=2e-2)
    else:
        same(found, model(*inputs))


@runs
def test_sizes_vary(tmp_path):
    torch.manual_seed(0)
    model, batch = nn.Sequential(nn.Linear(9, 20), nn.GELU(), nn.LayerNorm(20), nn.Linear(20, 5)), torch.export.Dim(
        "b", min=1, max=12)
    program = torch.export.export(model.eval(), (torch.randn(3, 9),), dynamic_shapes=({0: batch},))
    torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"), target="wasm32")
    rows = Package(tmp_path / "model.pt2").manifests["model"]["outputs"]
    for count in (1, 5, 12):
        x = torch.randn(count, 9)
        found, = ran(tmp_path, tmp_path / "model.pt2", (x,), rows, [[count, 9]])
        assert found.shape == (count, 5)
        same([found], model(x))
    with pytest.raises(RuntimeError, match="sizes of an input"):
        ran(tmp_path, tmp_path / "model.pt2", (torch.randn(13, 9),), rows, [[13, 9]])


@runs
def test_errors_are_told(tmp_path):
    _, _, rows = packaged("embedding", tmp_path / "model.pt2", "wasm32")
    with pytest.raises(RuntimeError, match="out of range"):
        ran(tmp_path, tmp_path / "model.pt2", (torch.full((4, 6), 20),), rows)
    with pytest.raises(RuntimeError, match="the model takes int64 of shape"):
        ran(tmp_path, tmp_path / "model.pt2", (torch.full((4, 7), 2),), rows)


def test_modules_ask_for_mathematics_only(tmp_path):
    packaged("lstm", tmp_path / "model.pt2", "wasm32")
    image = module(tmp_path / "model.pt2", tmp_path).read_bytes()
    r, names = wasm.Reader(image, 8), None
    while r.at < len(image):
        kind = image[r.at]
        r.at += 1
        part = wasm.Reader(r.bytes())
        if kind == wasm.IMPORTS:
            names = []
            for _ in range(part.number()):
                assert part.text() == "env"
                names.append(part.text())
                part.at += 1
                part.number()
    assert names is not None and set(names) <= wasm.OUTSIDE
    with pytest.raises(RuntimeError, match="wasm32"):
        torch._inductor.aoti_load_package(tmp_path / "model.pt2")


def test_numbers_are_written_as_they_are_read():
    rng = random.Random(0)
    for _ in range(300):
        value = rng.getrandbits(rng.randrange(1, 32))
        for padded in (0, 5):
            assert wasm.Reader(wasm.number(value, padded)).number() == value
            for one in (value, -value):
                assert wasm.Reader(wasm.signed(one, padded)).signed() == one
    assert wasm.signed(-1) == b"\x7f" and wasm.signed(64) == b"\xc0\0" and wasm.number(128) == b"\x80\1"
