"""What CONTRIBUTING.md tells newcomers to do works as it stands there."""
import importlib
import os
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

import rushlight as rl
from tests.docs.test_names import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = [textwrap.dedent(block) for block in re.findall(r"(?:^ {7}.*\n|^\n(?= {7}))+", PAGE, flags=re.MULTILINE)]


def block(beginning):
    return next(text.strip("\n") for text in BLOCKS if text.strip().startswith(beginning))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the package and its tests in which the operator and its module are added as the page says."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("rushlight", "tests", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    for file, beginning in (("_src/ops/activation.py", "@op"), ("nn/modules/activation.py", "Softroot")):
        path, added = folder / "rushlight" / file, block(beginning)
        if added not in path.read_text():  # whoever follows the page has it there
            path.write_text(f"{path.read_text()}\n\n{added}\n")
    return folder


def run(folder, *arguments):
    """The output of Python for these arguments in a folder, whose modules are found first."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": path})
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


def test_the_operator_that_is_added_is_used_as_shown(checkout):
    (checkout / "used.txt").write_text(block(">>>"))
    assert "7 passed" in run(checkout, "-m", "doctest", "-v", "used.txt")
    assert "rushlight" in run(checkout, "-c", "from rushlight import nn; print(nn.Softroot.__module__)")


def test_the_tests_that_take_every_operator_take_it(checkout):
    command = re.search(r"^ +python -m (pytest .* -k softroot)$", PAGE, flags=re.MULTILINE)[1]
    assert re.search(r"[5-9] passed", run(checkout, "-m", *command.split(), "-n", "0", "-p", "no:cacheprovider"))


def test_the_tests_that_it_names_exist():
    named = re.findall(r"tests/[\w/]+\.py", PAGE)
    assert len(named) > 4 and all((ROOT / path).exists() for path in named)


def test_the_rule_and_the_stage_that_are_added(monkeypatch):
    simplify = importlib.import_module("rushlight._src.compiler.simplify")
    pipeline = importlib.import_module("rushlight._src.compiler.pipeline")
    P = simplify.P
    monkeypatch.setitem(simplify.RULES, P.add, list(simplify.RULES[P.add]))
    monkeypatch.setattr(simplify, "SHOWN", list(simplify.SHOWN))
    names = dict(vars(simplify))
    exec(block("@rule"), names)
    exec(block("def prune"), names)
    seen = []

    def watched(c):
        names["prune"](c)
        seen.append([node.op.name for node in c.graph.nodes])

    monkeypatch.setattr(pipeline, "PLANNING", (pipeline.whole("prune", watched), *pipeline.PLANNING))
    assert "->" in names["prune"].__doc__
    rl._dynamo.reset()
    x = rl.randn(3, 41)
    assert rl.compile(lambda x: (x + x).exp())(x).allclose((2 * x).exp())
    assert ["prims.mul", "prims.exp"] in seen
