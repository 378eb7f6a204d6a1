"""Plans of how the layers of a module are split."""
from __future__ import annotations

import fnmatch
import warnings

from .._api import current_mesh
from .style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(module, device_mesh=None, parallelize_plan=None, *, src_data_rank: int | None = 0):
    """Shards a module by a style, or its submodules by ``{path: style}``; parts of a path may be glob patterns.  All
    processes of the mesh must hold the same parameters before, unless those of ``src_data_rank`` are broadcast.

    TypeError for a plan of another type; a UserWarning for a path that no module has.
    """
    mesh = device_mesh or current_mesh()
    if mesh.ndim != 1:
        raise ValueError(f"parallelize_module() expected a 1-D DeviceMesh, got {mesh}: slice it by dimension name")
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so this "
            "parallelize_module call will do nothing.", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            f"Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, {type(parallelize_plan)} "
            "found!")
    for path, style in parallelize_plan.items():
        found = [module] if path == "" else matching(module, path.split("."))
        if not found:
            warnings.warn(f"Parallelize plan key '{path}' could not be resolved: no submodule matching", stacklevel=2)
        for one in found:
            parallelize_module(one, mesh, style, src_data_rank=src_data_rank)
    return module


def matching(module, path: list) -> list:
    """The submodules at a path."""
    if not path:
        return [module]
    return [found for name, child in module.named_children() if fnmatch.fnmatch(name, path[0])
            for found in matching(child, path[1:])]
