"""Imports while Python ends: objects whose ``__del__`` computes may need modules that were never imported before.

Python disables the import system, and clears the names of modules, before it destroys the objects of ``__main__``.
Their state at exit is restored if an operator needs it then, and only then.
"""
import atexit
import builtins
import io
import sys

SYSTEM = "meta_path", "path", "path_hooks", "path_importer_cache"  # the attributes of sys that imports read
PACKAGES = frozenset((__name__.partition(".")[0], "numpy", "llvmlite", *sys.stdlib_module_names))
_kept: dict = {}  # their state at exit
_modules: dict = {}  # the modules of PACKAGES imported at exit; users' modules are destroyed as usual


def note():
    """Notes the import system and the loaded modules; runs at exit."""
    _kept.update((name, getattr(sys, name)) for name in SYSTEM)
    _modules.update((name, module) for name, module in list(sys.modules.items())
                    if name.partition(".")[0] in PACKAGES and name != "__main__")


def allow_imports():
    """Puts the import system back if Python has taken it away."""
    if sys.meta_path is not None or not _kept:
        return
    for name, value in _kept.items():
        setattr(sys, name, value)
    builtins.open = io.open  # the only builtin that Python adds late, and takes back
    for name, module in _modules.items():
        if sys.modules.get(name) is None:
            sys.modules[name] = module


atexit.register(note)
