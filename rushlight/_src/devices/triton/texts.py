"""Modules as functions of Triton, which reads its source where Python's own tools find it."""

from __future__ import annotations

import linecache
import types

MISSING = "Triton is not installed: pip install rushlight[cuda]"


def imported():
    """The package; RuntimeError that names the extra where there is none."""
    try:
        import triton
    except ImportError:
        raise RuntimeError(MISSING) from None
    return triton


def function_of(name: str, text: str):
    """The function of this name in a text of Triton."""
    imported()
    place = f"<rushlight {name}>"
    linecache.cache[place] = len(text), None, text.splitlines(True), place
    module = types.ModuleType(name)
    module.__file__ = place
    exec(compile(text, place, "exec"), module.__dict__)
    return module.__dict__[name]
