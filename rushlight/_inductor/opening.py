"""Opening models of packages: nothing of the compiler is imported for a model in machine code."""
from __future__ import annotations

from .._src.packages.interface import PYTHON
from .._src.packages.loaded import opened


def open_model(package, name="", run_single_threaded=False, device_index=-1, level=None):
    """A model of an opened package: in machine code or, where it has none, one that Python runs."""
    name = name or next(iter(package.manifests), "")
    if name in package.manifests and package.manifests[name]["target"] == PYTHON:
        if level is not None:
            raise ValueError(f"the model {name!r} has no code for {level!r}: it runs in Python")
        from .python_models import LoadedPythonModel
        made = LoadedPythonModel(package, name)
    else:
        made = opened(package, name, level=level, index=device_index)
    if run_single_threaded:
        made.run_on_one_thread()
    return made
