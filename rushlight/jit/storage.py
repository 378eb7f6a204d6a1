"""Saving programs: by pickling, so that their classes must be importable where they are loaded."""
from __future__ import annotations

import pickle

from .._src.programs import load as load_program
from .._src.programs import save as save_program
from .script import WHY, ScriptFunction, ScriptModule

MARK = "rushlight.jit"


def save(m, f, _extra_files=None):
    """Writes what ``script`` or ``trace`` gave to a file.  RuntimeError for programs whose code lives in no importable
    module."""
    if not isinstance(m, (ScriptModule, ScriptFunction)):
        raise ValueError(f"save() takes what script() or trace() gave, not {type(m).__name__}")
    original = m.original if isinstance(m, ScriptModule) else m.function
    try:
        save_program({"format": MARK, "module": isinstance(m, ScriptModule), "program": original,
                      "files": dict(_extra_files or {})}, f)
    except (pickle.PicklingError, AttributeError) as error:
        raise RuntimeError(
            f"cannot save {original!r}: {error}. Its class or function must be at the top level of a module that can "
            f"be imported, since {WHY}") from error


def load(f, map_location=None, _extra_files=None, _restore_shapes=False, *, trusted=False):
    """Reads what ``save`` wrote, which may run any code: RuntimeError for files that were not written here by this
    user, unless ``trusted``, and for TorchScript archives of PyTorch."""
    try:
        found = load_program(f, "torch.jit.load", trusted, map_location)
    except (RuntimeError, pickle.UnpicklingError, AttributeError, ModuleNotFoundError) as error:
        raise RuntimeError(
            f"jit.load cannot read this file: {error}. Archives that PyTorch's TorchScript wrote hold programs in "
            "another language; save the state_dict there "
            "and build the model from its Python code here.") from error
    if not isinstance(found, dict) or found.get("format") != MARK:
        raise RuntimeError(
            "jit.load reads files that jit.save wrote; this one holds something else: read it with torch.load")
    for name in _extra_files or ():
        _extra_files[name] = found["files"].get(name, "")
    return ScriptModule(found["program"]) if found["module"] else ScriptFunction(found["program"])
