"""Running a script with the name ``torch`` meaning Rushlight, in the first process and in those that it spawns.

A spawned process looks up the functions it is to run in the main module, which it imports by the name in that module's ``__spec__``.
Scripts run here bear the name of this file, so that the imports of the script find Rushlight there too; which script it is stands in the environment.
"""
from __future__ import annotations

import io
import os
import sys
import types
from importlib.util import find_spec

from . import install


SCRIPT = "RUSHLIGHT_SCRIPT"  # left for spawned processes, not a setting


def code_of(path: str):
    """A script's compiled text."""
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec")


def run(path: str):
    """Runs a script as the main module."""
    install()
    os.environ[SCRIPT] = os.path.abspath(path)
    module = types.ModuleType("__main__")
    module.__file__, module.__spec__ = path, find_spec(__name__)
    module.__builtins__ = __builtins__
    sys.modules["__main__"] = module
    exec(code_of(path), vars(module))


if __name__ == "__mp_main__":
    install()
    __file__ = os.environ[SCRIPT]
    exec(code_of(__file__), globals())
