"""Machine code that tests keep: one compilation for each text, level and CPU; none for a text that is refused."""
import os
import pathlib
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from ..startup import machine_code


@pytest.fixture
def compilations():
    return []


@pytest.fixture
def generate(compilations, tmp_path):
    """A code generator that keeps its results; ``compilations`` holds the IR that it compiled."""
    def generate(text, level, context, machines, features):
        if text == "malformed":
            raise RuntimeError("expected top-level entity")
        compilations.append(text)
        return f"{text} {level} {features.fingerprint}".encode()

    def run(text, level=1, cpu="a"):
        kept = machine_code.keep(tmp_path / "kept", generate)  # as another process would
        return kept(text, level, None, {}, SimpleNamespace(fingerprint=cpu))
    return run


def test_a_text_is_compiled_once(generate, compilations):
    assert generate("text") == generate("text") == b"text 1 a" and compilations == ["text"]


def test_level_and_processor_count(generate, compilations):
    assert len({generate("text", level, cpu) for level in (1, 2) for cpu in "ab"}) == len(compilations) == 4


def test_an_error_is_raised_each_time(generate):
    for _ in range(2):
        with pytest.raises(RuntimeError, match="expected top-level"):
            generate("malformed")


PROGRAM = """
import sys
import rushlight as torch
from rushlight._src.core.llvm.bindings import bindings
x = torch.arange(24.0).reshape(4, 6)
print(float((x * 3.5 + {number}).sqrt().sum()), *sorted(name for name in sys.modules if name.startswith("tests")))
"""


@pytest.mark.parametrize("arguments", [(), ("-m", "rushlight")], ids=["python", "rushlight"])
def test_children_keep_it_too(tmp_path, arguments):
    """The second process finds what the first one compiled, and compiles only what is new."""
    root = pathlib.Path(__file__).parents[2]
    kept, found = tmp_path / "kept", []
    for run, number in enumerate((1.25, 1.25, 1.25)):
        environment = {**os.environ, "MACHINE_CODE": str(kept), "RUSHLIGHT_CACHE": str(tmp_path / str(run)),
                       "PYTHONPATH": machine_code.search_path(root)}
        done = subprocess.run([sys.executable, *arguments, "-c", PROGRAM.format(number=number)], env=environment,
                              cwd=tmp_path, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0 and len(done.stdout.split()) == 1, done.stderr + done.stdout
        found.append({path.name: path.stat().st_ino for path in kept.rglob("*") if path.is_file()})
        if not run:  # each file is written anew if a process compiles its text
            next(path for path in kept.rglob("*") if path.is_file()).unlink()
    assert len(found[0]) > 1 and found[0].keys() == found[1].keys() and found[1] == found[2]
    assert sum(found[0][name] != found[1][name] for name in found[0]) <= 1


def test_search_paths_of_children_are_extended():
    """A literal PYTHONPATH would leave the processes of a test without machine code of earlier runs."""
    tests = pathlib.Path(__file__).parents[1]
    literal = [str(path.relative_to(tests)) for path in sorted(tests.rglob("*.py"))
               if re.search(r"""["']PYTHONPATH["']: str\((?:ROOT|root|Path)""", path.read_text(encoding="utf-8"))]
    assert not literal
