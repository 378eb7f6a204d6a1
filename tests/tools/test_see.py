"""The stages of one line, as the tool prints them; and the logs."""
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight._src.core.settings import settings
from rushlight.logging import LOGS, set_logs

SCRIPT = """import torch
import torch.nn.functional as F
x = torch.linspace(-1, 1, 24).reshape(4, 6).requires_grad_()
for _ in range(3):
    y = F.gelu(x)
z = torch.softmax(x, 1)
print("done")
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def run(*arguments):
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True)


def test_one_line_once(script):
    shown = run("rushlight.tools.see", script, "--line", "5").stdout
    assert shown.count("=== script.py:5: y = F.gelu(x)") == 1 and "softmax" not in shown and shown.endswith("done\n")
    assert shown.count("--- graph: nn.functional.gelu") == 1 and "prims.erf" in shown and "parallel" in shown
    assert "5 nodes -> 1 kernels" in shown


def test_chosen_stages(script):
    shown = run("rushlight.tools.see", script, "--stages", "asm", "--line", "6").stdout
    assert "--- asm:" in shown and "--- graph" not in shown


def test_bad_arguments(script):
    assert run("rushlight.tools.see", "no_such_file.py").returncode == 2
    refused = run("rushlight.tools.see", script, "--stages", "nonsense")
    assert refused.returncode == 2 and "nonsense" in refused.stderr and "fusion" in refused.stderr


def test_set_logs(capsys):
    set_logs("plans", "graph")
    torch.atan2(torch.ones(3, 1, 7), torch.ones(7))
    set_logs()
    torch.atan2(torch.ones(3, 1, 5), torch.ones(5))
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("[plans] atan2: program -> float32[3, 1, 7]") for line in lines)
    assert any(line.startswith("[graph]") and "prims.atan2" in line for line in lines)
    assert not any("5]" in line for line in lines)


def test_unknown_logs_are_refused():
    with pytest.raises(ValueError, match="nonsense.*plans"):
        set_logs("nonsense")
    assert set(LOGS) >= {"plans", "graph", "fusion", "kernels", "asm", "timing"}


def test_settings(monkeypatch):
    assert settings.kernels is True
    with settings.set(kernels=False):
        assert settings.kernels is False
    assert settings.kernels is True
    monkeypatch.setenv("RUSHLIGHT_KERNELS", "perhaps")
    with pytest.raises(ValueError, match="RUSHLIGHT_KERNELS.*0 or 1"):
        settings.kernels
    monkeypatch.delenv("RUSHLIGHT_KERNELS")
    with pytest.raises(AttributeError, match="cpu"):
        settings.no_such_setting = 1
    assert "RUSHLIGHT_CACHE" in repr(settings)


COMPILED = """import torch
f = torch.compile(lambda x: (x @ x).relu().sum())
x = torch.ones(4, 4, requires_grad=True)
for _ in range(3):
    loss = f(x)
loss.backward()
"""


def test_compiled_code(tmp_path):
    path = tmp_path / "compiled.py"
    path.write_text(COMPILED)
    shown = run("rushlight.tools.see", str(path), "--line", "5").stdout
    assert shown.count("=== compiled.py:5: loss = f(x)") == 1 and "=== compiled.py:6" not in shown
    for piece in ("--- guards: ", "--- graph: captured\ndef program(", "--- aot: compiled keeps (", "its backward:",
                  "--- kernels: compiled: prims.matmul by template", "nodes -> "):
        assert piece in shown, piece
    shown = run("rushlight.tools.see", str(path), "--stages", "output").stdout
    assert "def program(" in shown and "launch = attached(" in shown and "=== compiled.py:6: loss.backward()" in shown
