"""The cache of machine code, and when native code is used at all."""

import os
import subprocess
import sys

import pytest

from rushlight.core.native.compiler import activate, build, enabled, layout
from rushlight.core.native.compiler.declarations import Program

from .twins import load, needs_native

pytestmark = needs_native
SOURCE = """
SIZE = 10
PAIR = (1, "x")

@native
def f(n: i64):
    return n + SIZE, PAIR, len
"""


@pytest.fixture
def counted(monkeypatch, tmp_path):
    """Counts compilations, with a cache of its own."""
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path / "cache"))
    calls = []
    original = build.optimise
    monkeypatch.setattr(build, "optimise", lambda text: calls.append(text) or original(text))
    return calls



def test_second_start_uses_the_cache(counted, tmp_path):
    module = load(tmp_path, SOURCE)
    for _ in range(2):
        assert activate(_reload(module)) and module.f(1) == (11, (1, "x"), len)
    assert len(counted) == 1


def _reload(module):
    source = open(module.__file__).read()
    exec(compile(source, module.__file__, "exec"), vars(module))
    return module


def test_changed_numbers_compile_again(counted, tmp_path):
    module = load(tmp_path, SOURCE)
    activate(module)
    _reload(module).SIZE = 20
    activate(module)
    assert module.f(1)[0] == 21 and len(counted) == 2


@pytest.mark.parametrize("damage", [b"", b"nonsense\n", None])
def test_damaged_entries_are_rebuilt(counted, tmp_path, damage):
    module = load(tmp_path, SOURCE)
    activate(module)
    (entry,) = (path for path in (tmp_path / "cache" / "native").rglob("*") if path.is_file())
    entry.write_bytes(entry.read_bytes()[:-5] if damage is None else damage)
    activate(_reload(module))
    assert module.f(1)[0] == 11 and len(counted) == 2
    activate(_reload(module))
    assert len(counted) == 2


def test_works_without_a_cache(counted, tmp_path, monkeypatch):
    for place in ("0", os.devnull):
        monkeypatch.setenv("RUSHLIGHT_CACHE", place)
        module = load(tmp_path, SOURCE)
        assert activate(module) and module.f(1)[0] == 11


def test_names_shared_between_modules(tmp_path):
    first = load(tmp_path, "@native\nclass Box:\n value: i64\n def close(self):\n  note(self)\nnotes = []\n")
    second = load(tmp_path, f"from {first.__name__} import Box, notes\n"
                  "@native\ndef note(b: Box):\n notes.append(b.value)\n"
                  "@native\ndef make(n: i64) -> Box:\n b = Box()\n b.value = n\n b.close()\n return b\n")
    assert activate(first, second)
    assert second.make(4).value == 4 and first.notes == [4]
    assert second.Box is first.Box and isinstance(second.make(1), first.Box)


def test_switched_off(tmp_path, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_NATIVE", "0")
    module = load(tmp_path, SOURCE)
    assert not enabled() and not activate(module) and module.f(1) == (11, (1, "x"), len)


def test_this_interpreter_is_understood():
    assert layout.objection() is None


def test_constants_are_described_by_name(tmp_path):
    program = Program([load(tmp_path, SOURCE)])
    build.emit(program)
    name = program.modules[0].__name__
    assert ("global", name, "PAIR") in program.constants.slots and program.assumptions == {("global", name, "SIZE"): 10}


def test_clean_exit(tmp_path):
    """Objects may outlive the modules that made them, at exit too."""
    path = tmp_path / "leaver.py"
    path.write_text("""
import sys
from rushlight.core.native.compiler import activate
from rushlight.core.native.language import *
@native(weakref=True)
class Thing:
    other: object
    def finalize(self):
        print("gone")
activate(sys.modules["__main__"])
thing = Thing(); thing.other = thing
sys.kept = [Thing(), thing]
""")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and not done.stderr, done.stderr
