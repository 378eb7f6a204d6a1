"""Machine code of earlier test runs: LLVM compiles an IR text once per machine.

Code generation takes nearly half of the processor time of the tests, and a change of the package leaves the IR of most
modules as it was.  If the variable ``MACHINE_CODE`` names a directory, the object file of each compilation is kept
there, under a digest of all that it depends on: LLVM's version, the CPU features, the optimization level and the text.

Processes that tests start do the same: this directory is in their ``PYTHONPATH``, and each Python process imports
``sitecustomize`` from there when it starts.  Imports here are few, since all of them pay for these.
"""
import os
import sys

STARTUP = os.path.dirname(os.path.abspath(__file__))
LLVM = "rushlight._src.devices.cpu.llvm"
GENERATE = f"{LLVM}.generate"
IMPORTERS = (f"{LLVM}.jit", f"{LLVM}.compile_queue")  # modules that have a name for the code generator


def digest_of(*source: str) -> str:
    import hashlib

    return hashlib.sha256("\0".join(source).encode()).hexdigest()


def digest(text: str, level: int, features) -> str:
    import importlib

    return digest_of(importlib.import_module("llvmlite").__version__, features.fingerprint, str(level), text)


def find_or_make(directory: str, name: str, make) -> bytes:
    """Return the bytes under the digest ``name`` in ``directory``; if absent, keep those of ``make()`` there."""
    import pathlib

    from rushlight._src.core.files import replaced  # not before the variables of the tests are set

    path = pathlib.Path(directory, name[:2], name[2:])
    try:
        found = path.read_bytes()
        os.utime(path)  # files that no run has read for long are removed
    except FileNotFoundError:
        found = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path) as file:
            file.write(found)
    return found


def keep(directory: str, generate):
    """Wrap the code generator ``generate``: object files come from ``directory`` if they are there."""
    import functools

    @functools.wraps(generate)
    def find_or_generate(text, level, context, machines, features):
        if sys.is_finalizing():  # nothing can be imported any more
            return generate(text, level, context, machines, features)
        return find_or_make(directory, digest(text, level, features),
                            lambda: generate(text, level, context, machines, features))

    return find_or_generate


class CodeGeneratorFinder:
    """Import the module of the code generator and wrap its ``generate``, before others import the function."""

    is_keeping_machine_code = True

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if fullname != GENERATE:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(fullname, path)
        execute = spec.loader.exec_module

        def execute_and_wrap(module):
            execute(module)
            module.generate = keep(os.environ["MACHINE_CODE"], module.generate)

        spec.loader.exec_module = execute_and_wrap
        return spec


def install():
    """Keep machine code in this process if ``MACHINE_CODE`` names a directory; do nothing if it does so already."""
    directory = os.environ.get("MACHINE_CODE")
    if not directory or any(hasattr(finder, "is_keeping_machine_code") for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, CodeGeneratorFinder)
    for name in (GENERATE, *IMPORTERS):
        if name in sys.modules:
            sys.modules[name].generate = keep(directory, sys.modules[name].generate)


def search_path(*directories) -> str:
    """Return the ``PYTHONPATH`` of a child process: ``directories``, and this one."""
    entries = [entry for directory in directories for entry in str(directory).split(os.pathsep) if entry]
    return os.pathsep.join(dict.fromkeys([*entries, STARTUP]))
