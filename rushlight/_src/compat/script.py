"""Run programs with ``torch`` naming Rushlight, in this process and in the Python processes that it starts."""
from __future__ import annotations

import gc
import io
import os
import runpy
import sys
import types
from importlib.util import find_spec
from pathlib import Path

from .finder import install

START = Path(__file__).with_name("start")


def for_children():
    """Make child processes find Rushlight, too: by ``rushlight.pth``, or by the first directory in PYTHONPATH."""
    os.environ["RUSHLIGHT_AS_TORCH"] = "1"
    hook = find_spec("rushlight_as_torch")
    root = str(Path(hook.origin).parent if hook else START.parents[2])
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(START), *(entry for entry in known if entry), root]))


def main_module(file: str | None) -> types.ModuleType:
    """Make a new main module, as Python does for a script."""
    module = types.ModuleType("__main__")
    module.__builtins__ = __builtins__
    module.__spec__ = module.__loader__ = None
    if file is not None:
        module.__file__ = file
    sys.modules["__main__"] = module
    return module


def run_text(text, name: str, file: str | None = None):
    """Run a program's source as the main module; tracebacks show ``name``."""
    exec(compile(text, name, "exec"), vars(main_module(file)))


def run_file(path: str):
    """Run a script, or a directory or archive with a ``__main__``, as the main module."""
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        runpy.run_path(path, run_name="__main__")
        return
    with io.open_code(path) as file:
        run_text(file.read(), path, path)


def run(arguments: list[str]):
    """Run what Python's command line would run for these arguments: a script, ``-m module``, ``-c code`` or ``-``."""
    install()
    for_children()
    gc.freeze()  # the package's objects live until the process ends: collections, also those at its end, skip them
    kind, rest = arguments[0], arguments[1:]
    if kind == "-m":
        sys.argv, sys.path[0] = rest, os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        run_text(rest[0], "<string>")
    elif kind == "-":
        sys.argv, sys.path[0] = arguments, ""
        run_text(sys.stdin.read(), "<stdin>")
    else:
        sys.argv, sys.path[0] = arguments, os.path.dirname(os.path.abspath(kind))
        run_file(kind)
