"""The package on other systems: a program that uses most of its own machine runs where this process is made to look
like one of them, and nothing but ``core/platform`` asks which system it is on.  ``python -m tests.windows`` runs this
with a Python of Windows, where Wine is."""
import ast
import functools
import os
import pathlib
import re
import subprocess
import sys

import pytest

from rushlight._src.core.platform import Refused, here, of_system
from rushlight._src.core.platform.base import PAGE, Platform

from ..startup.machine_code import search_path

FOLDER = pathlib.Path(__file__).parent
ROOT = FOLDER.parents[1]
PACKAGE = ROOT / "rushlight"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="stand-ins are made of Linux's calls")
# modules and attributes that some systems lack
MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "msvcrt", "winreg"}
NAMES = {"sys": {"platform"}, "os": {"name", "fork", "register_at_fork", "geteuid", "getuid", "sysconf", "sched_yield",
                                     "sched_getaffinity", "memfd_create", "uname", "getpgid", "killpg", "setsid"}}
ALLOWED = {"testing/_internal/common_utils.py", "testing/_internal/common_distributed.py",  # PyTorch's names for tests
           "utils/collect_env.py", "utils/collecting.py",  # what they tell of
           "distributed/elastic/timer/file_based_local_timer.py"}  # that needs pipes with names


def ran(*arguments, folder):
    found = subprocess.run([sys.executable, *arguments], cwd=ROOT, text=True, capture_output=True, timeout=600, env={
        **os.environ, "PYTHONPATH": search_path(ROOT), "RUSHLIGHT_CACHE": str(folder), "RUSHLIGHT_STORE": "0"})
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stdout.strip().splitlines()


@functools.cache
def usual():
    """What the program prints here, without the name of the system."""
    found = subprocess.run([sys.executable, str(FOLDER / "program.py")], cwd=ROOT, text=True, capture_output=True,
                           timeout=600, env={**os.environ, "PYTHONPATH": search_path(ROOT)})
    return found.stdout.strip().splitlines()[1:]


@LINUX
@pytest.mark.parametrize("system, name, called", [
    ("win32", "windows", {"VirtualAlloc", "VirtualProtect", "TlsAlloc", "_aligned_malloc", "mapping", "CreateThread"}),
    ("darwin", "macos", {"sysctlbyname"})])
def test_programs_run_as_on_other_systems(system, name, called, tmp_path):
    first, *result, calls = ran("-m", "tests.platforms.stand_ins", system, str(FOLDER / "program.py"), folder=tmp_path)
    assert first == f"platform {name} {system}" and result == usual()
    if os.cpu_count() == 1:
        called -= {"CreateThread"}
    assert called <= set(calls.split())


@LINUX
@pytest.mark.parametrize("system, form", [("win32", "coff"), ("darwin", "macho")])
def test_object_files_of_other_systems_are_read(system, form, tmp_path):
    if os.uname().machine != "x86_64" and system == "win32":
        pytest.skip("LLVM has the assembler of its own machine only")
    found = ran("-m", "tests.platforms.stand_ins", system, str(FOLDER / "objects.py"), folder=tmp_path)
    assert found[-3:-1] == [f"hot path {form}", f"pool {form}"]


def may_know(text: str) -> bool:
    """True if a text has the words of what ``attributes`` finds: most have none, and need not be parsed."""
    words = set(re.findall(r"\w+", text))
    return bool(words & MODULES) or any(module in words and words & names for module, names in NAMES.items())


def attributes(path):
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if may_know(text) else ():
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            level = getattr(node, "level", 0)
            yield from (f"import {name}" for name in names if not level and name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in NAMES.get(node.value.id, ()):
                yield f"{node.value.id}.{node.attr}"


def test_only_one_room_knows_the_system():
    wrong = [(path.relative_to(PACKAGE).as_posix(), found) for path in PACKAGE.rglob("*.py")
             for found in attributes(path) if "platform" not in path.relative_to(PACKAGE).parts]
    assert [(path, found) for path, found in wrong if path not in ALLOWED] == []


def test_instances_say_what_they_are():
    assert isinstance(here, Platform) and of_system(sys.platform).name == here.name
    assert here.cores() <= here.processors() and here.bytes_of_memory() > 1 << 28
    with pytest.raises(RuntimeError, match="no symbol"):
        here.symbol("a_function_that_nobody_wrote")


def test_pages_are_given_back_zeroed():
    base = here.pages(4 * PAGE)
    import ctypes
    ctypes.memset(base, 7, 4 * PAGE)
    here.discard(base + PAGE, 2 * PAGE)
    assert ctypes.string_at(base, 4 * PAGE) == b"\7" * PAGE + bytes(2 * PAGE) + b"\7" * PAGE
    here.unmap(base, 4 * PAGE)


def test_shared_memory_is_opened_by_its_path():
    import ctypes
    first = here.shared(PAGE)
    second = here.opened(first.path, PAGE)
    ctypes.c_int64.from_address(first.address).value = 42
    assert ctypes.c_int64.from_address(second.address).value == 42
    opened, told = first.told()
    assert callable(opened) and told
    first.unlink()


def test_a_refusal_is_an_error_of_the_system():
    assert issubclass(Refused, OSError)


def test_paths_of_urls(tmp_path):
    if here.name == "windows":
        assert here.path_of("/C:/folder/a%20file") == r"C:\folder\a file"
    else:
        assert here.path_of("/folder/a%20file") == "/folder/a%20file"
