"""Compiles modules written in the typed subset: `activate` replaces their plain functions and classes by native ones.

`declarations` reads the declarations of modules, `function` with `expressions`, `calls` and `statements` turns bodies
into LLVM IR, `objects` and `entries` make the functions behind Python types and callables, `build` turns IR into
machine code, `publish` puts it into the modules.
"""

import warnings

from ...settings import settings
from . import layout


def enabled():
    """True if native code is enabled (`RUSHLIGHT_NATIVE` is not 0) and this interpreter can run it."""
    return settings.native and layout.objection() is None


def activate(*modules):
    """Compile the `@native` classes and functions of modules together, and put them in place; True if that was done.

    Modules that import the names afterwards get the native ones. With `RUSHLIGHT_NATIVE=0`, or on an interpreter whose
    layout is unknown, nothing changes; nor, with a warning, where LLVM can't produce code for this machine. Raises
    `Unsupported` for source outside the subset.
    """
    if not enabled():
        return False
    from .build import build
    from .declarations import NativeProgram
    from .publish import publish

    program = NativeProgram(modules)
    try:
        addresses = build(program)
    except RuntimeError as error:
        warnings.warn(f"the hot path runs as plain Python, slowly, because compiling it failed: {error}",
                      RuntimeWarning, stacklevel=2)
        return False
    publish(program, addresses)
    return True
