"""One source, loaded twice: as plain Python and compiled."""

import importlib.util
import itertools
import sys
import textwrap
from types import SimpleNamespace

import pytest

from rushlight._src.core.native.compiler import activate, layout

PRELUDE = "from rushlight._src.core.native.language import *\nfrom rushlight._src.core.native.memory import *\n"
numbers = itertools.count()
needs_native = pytest.mark.skipif(layout.objection() is not None, reason=str(layout.objection()))


def load(folder, source):
    """A fresh module with the given source."""
    name = f"twin{next(numbers)}"
    path = folder / f"{name}.py"
    path.write_text(PRELUDE + textwrap.dedent(source))
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def native(folder, source):
    """The source as a compiled module."""
    module = load(folder, source)
    assert activate(module)
    return module


def twins(folder, source):
    """The source as a plain and as a compiled module."""
    return SimpleNamespace(plain=load(folder, source), native=native(folder, source))


def outcome(function, *args, **names):
    """What a call gives: its value, or the type of what it raises."""
    try:
        return function(*args, **names)
    except Exception as error:
        return type(error)
