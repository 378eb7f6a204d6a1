"""Machine code of the hot path as a file of the package, so that the first process of an installed package starts
without compilation.

    RUSHLIGHT_NATIVE=0 python -m rushlight._src.core.native.compiler.prebuilt DIRECTORY

writes it for this interpreter and any CPU of this machine's architecture. The build backend does so for each wheel
(``building/backend.py``). If interpreter, architecture or sources differ, no such file is found, and ``build.py``
compiles.
"""

import pathlib
import sys

from .. import MODULES
from ...apart import apart
from ...llvm.machine import new_machine
from ...llvm.processor import instruction_sets
from ...settings import settings
from . import build
from .declarations import NativeProgram


def optimise(text):
    """The object file of LLVM IR for any CPU of this architecture. Code of the hot path moves pointers and integers:
    instructions that only some CPUs have would not speed it up."""
    machine = new_machine(instruction_sets("generic").cpu, "", 2, "small")
    return build._generate(text, build.PASSES, 2, machine)


def write(folder, modules=MODULES):
    """Write the file of modules that are not compiled yet into a directory; return its path."""
    program = NativeProgram(modules)
    text = build.emit(program)
    path = pathlib.Path(folder) / build.prebuilt_name(program)
    path.write_bytes(build.encoded(build.made(program, b"", apart(optimise, text))))
    return path


if __name__ == "__main__":
    if settings.native:
        raise SystemExit("RUSHLIGHT_NATIVE has to be 0: it is on, so the hot path's modules are compiled already")
    print(write(*sys.argv[1:]))
