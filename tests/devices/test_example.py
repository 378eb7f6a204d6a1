"""The example of a device, as a package that is found by its entry point."""
import os
import pathlib
import subprocess
import sys
import tomllib

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "device"
USE = """
import rushlight as rl
from rushlight import nn
assert rl.accelerator.current_accelerator() == rl.device("lent") and rl.lent.device_count() == 2
rl.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
x, y = rl.randn(16, 4), rl.randn(16, 1)
found = []
for where in ("cpu", "lent:1"):
    rl.manual_seed(0)
    twin = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(where)
    optimizer = rl.optim.AdamW(twin.parameters(), 0.05)
    step = rl.compile(lambda a, b: nn.functional.mse_loss(twin(a), b))
    for _ in range(5):
        loss = step(x.to(where), y.to(where))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found.append(loss.item())
assert found[0] == found[1] < 2, found
assert rl.lent.memory_allocated(1) > 0 and x.lent().is_lent and twin[0].weight.device == rl.device("lent:1")
try:
    rl.empty(1 << 30, device="lent")
except rl.OutOfMemoryError as error:
    assert "lender 0" in str(error)
else:
    raise AssertionError
print("used")
"""


def test_used_as_an_installed_package(tmp_path):
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    named = f"Name: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\n{named}")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    path = os.pathsep.join([str(tmp_path), str(FOLDER), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True)
    assert done.stdout == "used\n", done.stderr


def test_it_is_short():
    assert sum(len(file.read_text().splitlines()) for file in FOLDER.glob("*.py")) < 300
