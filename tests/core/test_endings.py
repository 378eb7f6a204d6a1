"""What objects do when Python ends: their ``__del__`` may compute, with plans that are made only then."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..startup.machine_code import search_path

PROGRAM = """
import sys
import rushlight as torch
n = int(sys.argv[1])

class Last:
    def __del__(self):
        x = (torch.ones(n, 3) @ torch.full((3, n), 2.0)).softmax(-1)
        w = torch.ones(n, requires_grad=True)
        (torch.nn.functional.gelu(w) * 2).sum().backward()
        print(round(x.sum().item()), tuple(w.grad.shape), torch.rand(n, 4).std(0).cumsum(0).shape[0])

kept = Last()
torch.compile(lambda x: (x * 3.25 + n).sqrt() + n * 0.37)(torch.ones(n))  # LLVM is there
"""


def test_plans_are_made_while_python_ends(tmp_path):
    environment = {**os.environ, "RUSHLIGHT_CACHE": str(tmp_path), "PYTHONPATH": search_path(Path(__file__).parents[2])}
    for size in (7, 8):  # the second time much is found in the cache
        made = subprocess.run([sys.executable, "-c", PROGRAM, str(size)], capture_output=True, text=True,
                              env=environment, timeout=1500)
        assert made.stdout.strip() == f"{size} ({size},) 4", made.stderr
        assert "Error" not in made.stderr


WORK = """
import rushlight as torch

KINDS = [
    lambda: (torch.ones(3) * 2).exp(),
    lambda: torch.ones(3, 4) @ torch.ones(4, 5),
    lambda: torch.arange(5.).flip(0).sort()[0],
    lambda: torch.linalg.inv(torch.eye(3)),
    lambda: torch.rand(4) + torch.randn(4),
    lambda: torch.arange(4.).nonzero(),
    lambda: torch.arange(4.)[torch.tensor([0, 2])],
    lambda: torch.fft.rfft(torch.arange(8.)).abs(),
    lambda: torch.tensor([len(repr(torch.arange(3.)))]),
    lambda: torch.nn.Linear(3, 2)(torch.ones(1, 3)).detach(),
    lambda: (lambda x: torch.autograd.grad((x @ x).relu().sum(), x))(torch.ones(3, 3, requires_grad=True)),
    lambda: torch.func.vmap(lambda x: x.sum())(torch.ones(3, 2)),
    lambda: torch.func.grad(lambda x: torch.compile(lambda y: (y * 3).relu().sum())(x))(torch.ones(3)),
    lambda: torch.compile(lambda x: (x * 3).relu().sum())(torch.ones(3))]

def work():
    for number, kind in enumerate(KINDS):
        kind()
    print("done", number + 1, flush=True)

class Last:
    def __del__(self):
        work()
"""
MOMENTS = {
    "a global": "kept = Last()",
    "a cycle": "kept = Last()\nkept.own = kept\ndel kept",
    "an attribute of a tensor": "kept = torch.ones(2)\nkept.note = Last()",
    "atexit": "import atexit\natexit.register(work)",
    "finalize": "import weakref\nclass Other: pass\nkept = Other()\nweakref.finalize(kept, work)",
    "a warm process": "work()\nkept = Last()"}
THREADS = {
    "daemons": "import threading, time\n"
               "def again():\n    while True:\n        for kind in KINDS:\n            kind()\n"
               "for _ in range(2):\n    threading.Thread(target=again, daemon=True).start()\n"
               "time.sleep(0.5)\nprint('done', len(KINDS))",
    "a daemon that begins at exit": "import atexit, threading\n"
               "atexit.register(lambda: threading.Thread(target=work, daemon=True).start())\nprint('done', len(KINDS))"}


QUICK = ("a global", "daemons")


def parameters(texts):
    return [pytest.param(text, id=name, marks=() if name in QUICK else pytest.mark.long)
            for name, text in texts.items()]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One for all, so that code is generated once."""
    return tmp_path_factory.mktemp("cache")


def run_ending(text, cache):
    environment = {**os.environ, "RUSHLIGHT_CACHE": str(cache), "PYTHONPATH": search_path(Path(__file__).parents[2])}
    return subprocess.run([sys.executable, "-c", WORK + text], capture_output=True, text=True, env=environment,
                          timeout=1500)


@pytest.mark.parametrize("text", parameters(MOMENTS))
def test_operators_of_all_kinds_while_python_ends(text, cache):
    """Modules are imported, plans made and functions captured only then, unless the process is warm."""
    made = run_ending(text, cache)
    assert (made.returncode, made.stderr) == (0, "")
    assert set(made.stdout.splitlines()) == {"done 14"}


@pytest.mark.parametrize("text", parameters(THREADS))
def test_threads_that_compute_while_python_ends(text, cache):
    made = run_ending(text, cache)
    assert (made.returncode, made.stderr) == (0, "")
    assert "done 14" in made.stdout
