"""The cache of machine code, and when native code is used at all."""

import os
import subprocess
import sys

import pytest

from rushlight._src.core.native.compiler import activate, build, enabled, layout, prebuilt
from rushlight._src.core.native.compiler.declarations import NativeProgram

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
    original = build._generate
    monkeypatch.setattr(build, "_generate", lambda text, passes, level, *rest: calls.append(level)
                        or original(text, passes, level, *rest))
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


def test_better_code_is_made_once_and_used_by_later_starts(counted, tmp_path, monkeypatch):
    keys = []
    monkeypatch.setattr(build, "_later", keys.append)
    module = load(tmp_path, SOURCE)
    for _ in range(2):  # quick code, compiled and then from the cache
        assert activate(_reload(module)) and module.f(1)[0] == 11
    assert counted == [0] and keys[0] == keys[1]
    for _ in range(2):
        build.refine(keys[0])
    assert counted == [0, 2]
    assert activate(_reload(module)) and module.f(1)[0] == 11
    assert counted == [0, 2] and len(keys) == 2


def test_better_code_for_changed_numbers(counted, tmp_path, monkeypatch):
    keys = []
    monkeypatch.setattr(build, "_later", keys.append)
    module = load(tmp_path, SOURCE)
    for size in (10, 20):
        _reload(module).SIZE = size
        activate(module)
        build.refine(keys[-1])
    _reload(module).SIZE = 20
    assert activate(module) and module.f(1)[0] == 21 and counted == [0, 2, 0, 2]


def test_a_process_that_lives_for_a_while_makes_better_code(tmp_path):
    script = """
import sys, threading
timer, started = threading.Timer, []
def start(seconds, *rest):
    started.append(timer(seconds * float(sys.argv[1]), *rest))
    return started[-1]
threading.Timer = start
import rushlight
if sys.argv[2] == "waits":
    for one in started:
        one.join()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RUSHLIGHT_CACHE": str(tmp_path),
                   "RUSHLIGHT_LOGS": "timing"}
    said = []
    for patience, life in (("1000", "leaves"), ("0", "waits"), ("0", "waits")):
        done = subprocess.run([sys.executable, "-c", script, patience, life], capture_output=True, text=True,
                              env=environment)
        assert done.returncode == 0, done.stderr
        said.append(("compiled the hot path" in done.stderr, "optimised the hot path" in done.stderr))
    assert said == [(True, False), (False, True), (False, False)]


@pytest.fixture
def shipped(counted, tmp_path, monkeypatch):
    """A module, and the file with its machine code in a folder that stands for the package's."""
    module, folder = load(tmp_path, SOURCE), tmp_path / "prebuilt"
    folder.mkdir()
    path = prebuilt.write(folder, [module])
    monkeypatch.setattr(build, "PREBUILT", folder)
    assert counted == [2]
    return module, path


def test_code_of_the_package_is_used_without_a_cache(shipped, counted, monkeypatch, tmp_path):
    module, _ = shipped
    assert activate(_reload(module)) and module.f(1) == (11, (1, "x"), len)
    assert counted == [2] and not (tmp_path / "cache").exists()


@pytest.mark.parametrize("change", ["number", "source", "interpreter", "damaged", "absent"])
def test_code_of_the_package_is_for_what_it_was_made_of(change, shipped, counted, monkeypatch):
    module, path = shipped
    if change == "number":
        _reload(module).SIZE = 20
    elif change == "source":
        with open(module.__file__, "a") as file:
            file.write("# changed\n")
        _reload(module)
    elif change == "interpreter":
        monkeypatch.setattr(sys, "version_info", (*sys.version_info[:2], 99, "final", 0))
    elif change == "damaged":
        path.write_bytes(path.read_bytes()[:-5])
    else:
        path.unlink()
    assert activate(module if change == "number" else _reload(module))
    assert module.f(1)[0] == (21 if change == "number" else 11) and counted == [2, 0]


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
    program = NativeProgram([load(tmp_path, SOURCE)])
    build.emit(program)
    name = program.modules[0].__name__
    assert ("global", name, "PAIR") in program.constants.slots and program.assumptions == {("global", name, "SIZE"): 10}


def test_clean_exit(tmp_path):
    """Objects may outlive the modules that made them, at exit too."""
    path = tmp_path / "leaver.py"
    path.write_text("""
import sys
from rushlight._src.core.native.compiler import activate
from rushlight._src.core.native.language import *
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
