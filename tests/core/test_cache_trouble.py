"""Compiled training where the machine is difficult: no compiler, caches that are damaged, read-only, full or shared.
All of it gives the same numbers."""
import os
import pathlib
import random
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
if "--full" in sys.argv:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
import rushlight as torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
model, x = torch.compile(net), torch.randn(32, 8)
for _ in range(3):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("loss", loss.item())
"""


def start(cache, *flags, **environment):
    place = pathlib.Path(__file__).parents[2]
    settings = {**os.environ, "PYTHONPATH": str(place), "RUSHLIGHT_CACHE": str(cache), **environment}
    return subprocess.Popen([sys.executable, "-c", SCRIPT, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=settings)


def loss(process):
    out, errors = process.communicate(timeout=1500)
    assert process.returncode == 0 and "Traceback" not in errors, errors
    return next(line for line in out.splitlines() if line.startswith("loss"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache that processes without any compiler on their path filled at the same time, and what they computed."""
    folder = tmp_path_factory.mktemp("cache")
    empty = tmp_path_factory.mktemp("nothing")
    processes = [start(folder, PATH=str(empty), CC="", CXX="") for _ in range(2)]
    first, second = map(loss, processes)
    assert first == second and any(folder.rglob("*"))
    return folder, first


def entries(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def kernels_and_plans(folder):
    """Without the hot path, which a process optimises for later ones when it has run for half a minute."""
    return {path for path in entries(folder) if (folder / "native") not in path.parents}


def test_no_compiler_and_several_processes(filled):
    folder, expected = filled
    before = kernels_and_plans(folder)
    assert loss(start(folder)) == expected
    assert before and kernels_and_plans(folder) == before  # all was there


def test_damaged_entries(filled, tmp_path):
    folder, expected = filled
    chance, copy = random.Random(0), tmp_path / "copy"
    for path in entries(folder):
        data = bytearray(path.read_bytes())
        how = chance.randrange(4)
        if how == 0:
            data[chance.randrange(len(data))] ^= 255
        elif how == 1:
            data = data[:len(data) // 2]
        elif how == 2:
            data = b""
        target = copy / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    assert loss(start(copy)) == expected


@pytest.mark.parametrize("trouble", ["nowhere", "full"])
def test_a_cache_that_cannot_be_written(filled, tmp_path, trouble):
    if trouble == "nowhere":
        (tmp_path / "file").write_text("no folder")
        assert loss(start(tmp_path / "file" / "cache")) == filled[1]
    else:
        assert loss(start(tmp_path / "cache", "--full")) == filled[1]
        assert all(path.stat().st_size <= 2000 for path in entries(tmp_path))
