"""Failing graphs: found by comparing with eager, and reduced to scripts that run."""
import os
import pathlib
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight._dynamo.exc import BackendCompilerFailed
from rushlight._src.capture import backends
from rushlight._src.core.settings import settings
from rushlight.tools.accuracy import AccuracyError, agree, error
from rushlight.tools.minify import minify, script

from ..startup.machine_code import search_path

ROOT = pathlib.Path(__file__).resolve().parents[2]


def broken(module, inputs):
    """A backend that computes sin wrongly where something is added to its result."""
    for node in module.graph.find_nodes(op="call_function", target=torch.sin):
        if any(user.target is torch.add for user in node.users):
            node.target = torch.cos
    module.recompile()
    return module.forward


def raising(module, inputs):
    """A backend that cannot compile exp."""
    if module.graph.find_nodes(op="call_function", target=torch.exp):
        raise NotImplementedError("no exp here")
    return module.forward


def program(x, y):
    a = torch.relu(x) @ y
    b = torch.sin(a * 2) + y
    return torch.exp(b).sum(), a - 1


def test_a_right_backend_passes():
    x, y = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3)
    for backend in ("rushlight", "eager", "aot_eager"):
        with settings.set(check="accuracy"):
            total, rest = torch.compile(program, backend=backend)(x, y)
        assert torch.allclose(total, program(x, y)[0])


def test_half_precision_is_judged_by_float64():
    x = torch.randn(40, 40).bfloat16()
    with settings.set(check="accuracy"):
        torch.compile(lambda x: (x @ x).softmax(1).sum(0))(x)


def test_the_first_wrong_operator_is_named():
    with settings.set(check="accuracy"), pytest.raises(AccuracyError) as caught:
        torch.compile(program, backend=broken)(torch.randn(3, 3), torch.randn(3, 3))
    assert caught.value.node.op.name == "add" and "first wrong: t4 = add(t3, x1)" in str(
        caught.value) and "test_minify.py" in str(caught.value)


def test_wrong_gradients_are_found():
    class Halved(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g / 2

    def halving(module, inputs):
        return lambda *values: tuple(Halved.apply(r) for r in module(*values))

    with settings.set(check="accuracy"), pytest.raises(AccuracyError, match="sin"):
        torch.compile(lambda x: x.sin(), backend=halving)(torch.ones(3, requires_grad=True))


def test_errors_are_relative():
    x = torch.tensor([1.0, float("nan"), float("inf")])
    assert error(x, x) == 0 and error(x, torch.ones(3)) == float("inf") and error(torch.ones(2),
                                                                                  torch.ones(3)) == float("inf")
    assert abs(error(torch.tensor([1.1]), torch.tensor([1.0])) - 0.1) < 1e-6 and agree(torch.tensor([1]),
                                                                                       torch.tensor([1]), None)
    assert not agree(torch.tensor([1]), torch.tensor([2]), None) and error(3, 3) == 0 and error(3, 4) == float("inf")


@pytest.fixture
def minified(tmp_path, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_MINIFIED", str(tmp_path / "small.py"))
    return tmp_path / "small.py"


@pytest.mark.parametrize("backend, wanted, left",
                         [(broken, AccuracyError, {"sin", "add"}), (raising, BackendCompilerFailed, {"exp"})])
def test_a_failure_becomes_a_small_script(backend, wanted, left, minified, capsys, monkeypatch):
    with settings.set(check="minify"), pytest.raises(wanted):
        torch.compile(program, backend=backend)(torch.randn(3, 3), torch.randn(3, 3))
    text = minified.read_text()
    calls = {line.split("torch.")[1].split("(")[0] for line in text.splitlines() if line.startswith("    ")
             and "torch." in line}
    assert calls == left and str(minified) in capsys.readouterr().err
    monkeypatch.setitem(backends.BACKENDS, "rushlight", backends.Users(backend))
    with pytest.raises(wanted):
        exec(compile(text, str(minified), "exec"), {"__name__": "__main__", "__file__": str(minified)})


def test_a_script_runs_by_itself(tmp_path):
    module = torch.fx.symbolic_trace(lambda x, i: (torch.index_select(x, 0, i).relu(),))
    text = script(module, [torch.randn(3, 2, requires_grad=True).t(), torch.tensor([0, 1])])
    path = tmp_path / "whole.py"
    path.write_text(text)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_does_not_fail_is_not_minified():
    with pytest.raises(ValueError, match="nothing to minify"):
        minify(torch.fx.symbolic_trace(lambda x: (x + 1,)), [torch.ones(1)], lambda module, inputs: False)


def test_the_command(tmp_path):
    path, out = tmp_path / "train.py", tmp_path / "small.py"
    path.write_text("import torch\nfrom tests.tools.test_minify import broken, program\nimport torch\n"
                    "torch.compile(program, backend=broken)(torch.randn(2, 2), torch.randn(2, 2))\n")
    done = subprocess.run([sys.executable, "-m", "rushlight.tools.minify", str(path), "--out", str(out)],
                          capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": search_path(ROOT)})
    assert "AccuracyError" in done.stderr and "torch.sin" in out.read_text(), done.stderr
    assert "relu" not in out.read_text(), done.stderr
