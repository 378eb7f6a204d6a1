"""Compiles modules written in the typed subset: `activate` makes their native forms take the place of the plain ones.

`declarations` reads what modules declare, `function` with `expressions`, `calls` and `statements` turns bodies into LLVM IR, `objects` and
`entries` make the functions behind Python types and callables, `build` turns IR into machine code, `publish` puts it into the modules.
"""

import os

from . import layout


def enabled():
    """Whether native code is wanted (`RUSHLIGHT_NATIVE` is not 0) and this interpreter can run it."""
    return os.environ.get("RUSHLIGHT_NATIVE", "1") != "0" and layout.objection() is None


def activate(*modules):
    """Compile the `@native` classes and functions of modules together, and put them in place; True if that was done.

    Modules that import the names afterwards get the native ones. With `RUSHLIGHT_NATIVE=0`, or on an interpreter whose layout is unknown,
    nothing changes. Raises `Unsupported` for source outside the subset.
    """
    if not enabled():
        return False
    from .build import build
    from .declarations import Program
    from .publish import publish

    program = Program(modules)
    publish(program, build(program))
    return True
