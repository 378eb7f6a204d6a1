"""Modules of an exported program replaced by others."""
from __future__ import annotations

from .._src.core.later import later
from .exported_program import ExportedProgram
from .unflatten import UnflattenedModule, unflatten


def _swap_modules(ep: ExportedProgram, modules_to_swap) -> UnflattenedModule:
    """The program as a module in which the submodules with these names are others, which are called as the originals
    were.  ValueError for one whose signature the export did not keep.

    >>> import rushlight as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    >>> program = torch.export.export(net, (torch.ones(2, 3),), preserve_module_call_signature=("1",))
    >>> bool((_swap_modules(program, {"1": torch.nn.Tanh()})(torch.ones(2, 3)).abs() < 1).all())
    True
    """
    kept = {entry.fqn for entry in ep.module_call_graph if entry.fqn and entry.signature is not None}
    for path in modules_to_swap:
        if path not in kept:
            raise ValueError(f"the export did not keep how {path!r} is called: name it in "
                             "preserve_module_call_signature")
    made = unflatten(ep)
    for path, module in modules_to_swap.items():
        for own in [name for name, _ in made.named_modules(remove_duplicate=False)
                    if name == path or name.startswith(f"{path}@")]:
            parent, _, last = own.rpartition(".")
            setattr(made.get_submodule(parent), last, module)
    return made


__getattr__ = later(__name__)
