"""Saving programs: what was traced as exported programs, which need no class of the author's; what was scripted by
pickling, with the code of what cannot be imported."""
from __future__ import annotations

import pickle

from .._src.core.log import logger
from ..export.files.programs import record_of
from ..serialization import opened
from . import foreign
from .._src.programs import load as load_program
from .._src.programs import save as save_program
from .programs import UNFIT, LoadedProgram, folder_in, read, write
from .script import WHY, Above, ScriptFunction, ScriptModule

log = logger("graph_breaks")
MARK = "rushlight.jit"


def save(m, f, _extra_files=None):
    """Writes what ``script`` or ``trace`` gave to a file.  RuntimeError for scripted programs, and traced ones
    that fit no one graph, that hold what cannot be pickled."""
    if not isinstance(m, (ScriptModule, ScriptFunction)):
        raise ValueError(f"save() takes what script() or trace() gave, not {type(m).__name__}")
    files = dict(_extra_files or {})
    if isinstance(m, LoadedProgram):
        return m._save_to(f, files)
    found = None if getattr(m, "example", None) is None else programs_of(m)
    if found is not None:
        return write(found, f, {"name": name_of(m), "training": getattr(m, "training", False)}, files)
    original = m.original if isinstance(m, ScriptModule) else m.function
    try:
        save_program({"format": MARK, "module": isinstance(m, ScriptModule), "program": original,
                      "files": files}, f)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise RuntimeError(f"cannot save {original!r}: {error}. What it holds, and what its code reads, must be "
                           f"picklable, since {WHY}") from error


def programs_of(m):
    """The programs of what was traced; None where they cannot be written, for a reason that is logged."""
    try:
        found = m.example.programs(m.original) if isinstance(m, ScriptModule) else m.example.programs_of_function(
            m.function)
        for one in found:
            record_of(one)
        return found
    except UNFIT as reason:
        log.info("%s is saved by its class: %s", name_of(m), reason)
        return None


def name_of(m) -> str:
    return m.original_name if isinstance(m, ScriptModule) else getattr(m.function, "__name__", "function")


def load(f, map_location=None, _extra_files=None, _restore_shapes=False, *, trusted=False):
    """Reads what ``save`` wrote, or a TorchScript file of PyTorch.

    A scripted program that ``save`` wrote may run any code: RuntimeError for such files that were not written here by
    this user, unless ``trusted``.  Traced programs are always read: they call only operators.  TorchScript files are
    always read: their code is interpreted and can call only operators; RuntimeError for one that is damaged or has
    other code.
    """
    if not hasattr(f, "read"):
        with open(f, "rb") as file:
            return load(file, map_location, _extra_files, trusted=trusted)
    if is_script(f):
        return foreign.load(f, map_location, _extra_files)
    if folder_in(f) is not None:
        return read(f, map_location, _extra_files)
    try:
        found = load_program(f, "torch.jit.load", trusted, map_location)
    except (RuntimeError, pickle.UnpicklingError, AttributeError, ModuleNotFoundError) as error:
        raise RuntimeError(f"jit.load cannot read this file: {error}.") from error
    if not isinstance(found, dict) or found.get("format") != MARK:
        raise RuntimeError(
            "jit.load reads files that jit.save wrote; this one holds something else: read it with torch.load")
    for name in _extra_files or ():
        _extra_files[name] = found["files"].get(name, "")
    return ScriptModule(found["program"]) if found["module"] else ScriptFunction(found["program"])


def is_script(f) -> bool:
    """True if an open file is an archive of TorchScript; its position is kept."""
    start = f.tell()
    try:
        return foreign.is_foreign(*opened(f))
    except (RuntimeError, EOFError):
        return False  # not an archive: the next reader reports the error
    finally:
        f.seek(start)


Above.save = save
