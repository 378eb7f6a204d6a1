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
import tempfile

LLVM = "rushlight._src.devices.cpu.llvm"


def digest(text: str, level: int, features) -> str:
    source = importlib.import_module("llvmlite").__version__, features.fingerprint, str(level), text
    return hashlib.sha256("\0".join(source).encode()).hexdigest()


def write(path: pathlib.Path, data: bytes):
    """Write a file that other processes see whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    os.replace(file.name, path)


def keep(directory: pathlib.Path, generate):
    """Wrap the code generator ``generate``: object files come from ``directory`` where they are there."""

    @functools.wraps(generate)
    def find_or_generate(text, level, context, machines, features):
        name = digest(text, level, features)
        path = directory / name[:2] / name[2:]
        try:
            image = path.read_bytes()
            os.utime(path)  # files that no run has read for long are removed
        except FileNotFoundError:
            image = generate(text, level, context, machines, features)
            write(path, image)
        return image

    return find_or_generate


def install():
    """Keep machine code if ``MACHINE_CODE`` names a directory."""
    if directory := os.environ.get("MACHINE_CODE"):
        for module in map(importlib.import_module, (f"{LLVM}.jit", f"{LLVM}.compile_queue")):
            module.generate = keep(pathlib.Path(directory), module.generate)
