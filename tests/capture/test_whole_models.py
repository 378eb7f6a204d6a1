"""Small versions of the models that are measured: uncompiled, compiled and PyTorch compute the same, in one graph."""
import os
import subprocess
import sys

import numpy as np
import pytest

import rushlight
from benchmarks.models.cases import CASES

judge = pytest.importorskip("torch")


def step(case, library, state, compiled=False):
    """Results (or the loss) and gradients of one step; the model; what was captured."""
    model = case.model(library, small=True)
    model.load_state_dict({name: library.tensor(value) for name, value in state.items()})
    run = library.compile(model) if compiled else model
    inputs, targets = case.data(library, small=True)
    if case.loss is None:
        with library.no_grad():
            found = [run(*inputs)]
    else:
        library.manual_seed(1)
        found = [case.loss(library.nn.functional, run(*inputs), *targets)]
        found[0].backward()
    gradients = {name: p.grad.numpy() for name, p in model.named_parameters() if p.grad is not None}
    return [x.detach().numpy() for x in found], gradients, {name: b.numpy()
                                                            for name, b in model.named_buffers()}, getattr(run, "owner",
                                                                                                           None)


def close(found, expected, what):
    assert list(found) == list(expected)
    for name, value in expected.items():
        scale = max(np.abs(value).max(), 1e-3)
        assert np.abs(found[name] - value).max() <= 2e-3 * scale, f"{what} {name}"


@pytest.mark.parametrize("name", CASES)
def test_model(name):
    case = CASES[name]
    judge.manual_seed(0)
    state = {key: value.numpy().copy() for key, value in case.model(judge, small=True).state_dict().items()}
    expected = step(case, judge, state)
    plain, compiled = step(case, rushlight, state), step(case, rushlight, state, compiled=True)
    for found in [compiled] if case.random else [compiled, plain]:
        reference = plain if case.random else expected  # random numbers differ between the libraries
        for k, what in enumerate(("result", "gradient", "buffer")):
            pairs = [dict(enumerate(x[k])) if k == 0 else x[k] for x in (found, reference)]
            close(*pairs, what)
    stats = compiled[3].stats
    assert (stats.segments, len(stats.graphs), stats.breaks) == (1, 1, [])


TRAIN = """
import subprocess
import rushlight as torch

def refuse(*args, **kwargs):
    raise AssertionError(f"a program was started: {args}")

subprocess.Popen.__init__ = refuse
model = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1)))
loss = model(torch.ones(3, 4)).square().mean()
loss.backward()
print(all(p.grad is not None for p in model.parameters()))
"""


def test_nothing_but_python_is_needed(tmp_path):
    """With empty caches and no program on the path, not even a C compiler."""
    environment = {"PATH": "", "RUSHLIGHT_CACHE": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", TRAIN], capture_output=True, text=True, env=environment)
    assert done.stdout == "True\n", done.stderr
