"""Machine code of earlier test runs: LLVM compiles an IR text once per machine.

Code generation takes nearly half of the processor time of the tests, and a change of the package leaves most IR texts
as they were.  Where the variable ``MACHINE_CODE`` names a directory, the object file of each compilation is kept there,
under a digest of all that it depends on: LLVM's version, the CPU features, the optimization level and the text.
"""
import functools
import hashlib
import importlib
import os
import pathlib

LLVM = "rushlight._src.devices.cpu.llvm"


def digest(text: str, level: int, features) -> str:
    source = importlib.import_module("llvmlite").__version__, features.fingerprint, str(level), text
    return hashlib.sha256("\0".join(source).encode()).hexdigest()


def keep(directory: pathlib.Path, generate):
    """Wrap the code generator ``generate``: object files come from ``directory`` where they are there."""
    from rushlight._src.core.files import replaced  # not before the variables of the tests are set

    @functools.wraps(generate)
    def find_or_generate(text, level, context, machines, features):
        name = digest(text, level, features)
        path = directory / name[:2] / name[2:]
        try:
            image = path.read_bytes()
            os.utime(path)  # files that no run has read for long are removed
        except FileNotFoundError:
            image = generate(text, level, context, machines, features)
            path.parent.mkdir(parents=True, exist_ok=True)
            with replaced(path) as file:
                file.write(image)
        return image

    return find_or_generate


def install():
    """Keep machine code if ``MACHINE_CODE`` names a directory."""
    if directory := os.environ.get("MACHINE_CODE"):
        for module in map(importlib.import_module, (f"{LLVM}.jit", f"{LLVM}.compile_queue")):
            module.generate = keep(pathlib.Path(directory), module.generate)
