"""Calls of the modules whose signatures an export preserves, recorded by hooks during capture."""
from __future__ import annotations

from .._src.capture.noted_calls import Notes, note
from ..fx import Node
from .exported_program import ModuleCallEntry, ModuleCallSignature
from .graph_signature import ConstantArgument


class Noting:
    """``with Noting(module, paths) as noting:`` calls of the submodules with these names are noted.  ValueError for a
    name that is no submodule's."""

    def __init__(self, module, paths):
        known = dict(module.named_modules())
        unknown = [path for path in paths if path not in known]
        if unknown:
            raise ValueError(f"preserve_module_call_signature names {unknown[0]!r}, which is no submodule; there are "
                             f"{', '.join(sorted(filter(None, known)))}")
        self.modules = {path: known[path] for path in paths if path}
        self.notes, self.handles = Notes(), []

    def __enter__(self):
        for path, module in self.modules.items():
            before, after = hooks(self.notes, path)
            self.handles += [module.register_forward_pre_hook(before, with_kwargs=True),
                             module.register_forward_hook(after)]
        return self

    def __exit__(self, *exception):
        for handle in self.handles:
            handle.remove()

    def entries(self, node_of, argument) -> dict:
        """{path, "path@1" of a second call: how it is called}.  ``node_of(leaf, nodes before)``: what a leaf is in the
        program's graph, ``argument``: makes an argument of a signature of it."""
        made, counts, open_calls = {}, {}, []
        for path, side, noted in self.notes.of_last():
            leaves = [node_of(leaf, noted.before) for leaf in noted.leaves]
            arguments = [argument(leaf) if isinstance(leaf, Node) else ConstantArgument("", leaf) for leaf in leaves]
            if side == "inputs":
                open_calls.append((path, counts.get(path, 0)))
                counts[path] = counts.get(path, 0) + 1
                name = named(*open_calls[-1])
                made[name] = ModuleCallSignature(arguments, [], noted.spec, None)
            else:
                name = named(*open_calls.pop())
                made[name].outputs, made[name].out_spec = arguments, noted.spec
        return made


def hooks(notes, path):
    """The hooks of one module; capture follows them."""
    def before(module, args, kwargs):
        note(notes, path, "inputs", (args, kwargs))

    def after(module, args, result):
        note(notes, path, "outputs", result)

    return before, after


def named(path, count) -> str:
    return f"{path}@{count}" if count else path


def call_graph(module, signatures) -> list:
    """The entries of a program for its submodules and their further calls."""
    made = [ModuleCallEntry(name, signatures.get(name)) for name, _ in module.named_modules() if name]
    return made + [ModuleCallEntry(name, one) for name, one in signatures.items() if "@" in name]
