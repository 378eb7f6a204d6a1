"""One run of a function under capture: its single graph, and what its inputs and outputs are to the function."""
from __future__ import annotations

import ast

from .._src.capture.segment import Segment
from .._src.capture.frames import Owner
from .._src.autograd.mode import no_grad
from .._src.compiling import compiled
from .._src.core.native import Tensor
from .._src.core.pytree import tree_flatten
from .._src.core.random import default_generator
from ..fx import Graph, GraphModule
from .spelling import Exported, spelled


class Captured:
    """``module``: a GraphModule of the function's graph; ``inputs``: for each of its placeholders the tensor or number
    that it was;
    ``outputs``: for each leaf of the result ("output", k), ("input", tensor) or ("constant", value); ``spec``: how
      results are nested."""

    def __init__(self, module, inputs, outputs, spec, drawn, segment: Segment):
        self.module, self.inputs, self.outputs, self.spec, self.drawn, self.segment = (module, inputs, outputs, spec,
                                                                                       drawn, segment)
        self.guards = list(segment.guards)

    def symbols(self) -> dict:
        """For each placeholder that is a size, or is computed of sizes: its text, as a syntax tree."""
        texts = argument_texts(self.segment.source)
        return {node: ast.parse(text, mode="eval").body
                for node, text in zip(self.module.graph.find_nodes(op="placeholder"), texts) if ".shape[" in text}

    def owner_of(self, tree):
        """The object that an expression of the segment names, as it was when the function was captured."""
        return eval(ast.unparse(tree), {**self.segment.guard.__globals__, "V": self.segment.values})

    def varies(self, tensor, dim) -> bool:
        """Whether a size that was marked may vary; one that the program never looks at may."""
        text = next((text for text, value in zip(argument_texts(self.segment.source), self.inputs) if value is tensor),
                    None)
        return text is None or self.segment.varying.get(f"{text}.shape[{dim}]", False)


class Untouched:
    """``with Untouched(module, tensors):`` what the block changes of the module's buffers and of these tensors is put
    back."""

    def __init__(self, module, leaves):
        self.places = [(m, dict(m._buffers)) for m in module.modules()]
        tensors = {id(t): t for t in (*module.buffers(), *leaves) if isinstance(t, Tensor) and not t.is_meta}
        self.before = [(t, t._version, t.detach().clone()) for t in tensors.values()]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for module, buffers in self.places:
            module._buffers.update(buffers)
        with no_grad():
            for tensor, version, value in self.before:
                if tensor._version != version:
                    tensor.copy_(value)


def argument_texts(source: str) -> list:
    """What a segment passes to its graph, as text."""
    calls = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
             and n.func.id == "graph"]
    return [ast.unparse(a) for a in calls[0].args] if calls else []


def empty_module() -> GraphModule:
    graph = Graph()
    graph.output(())
    return GraphModule({}, graph)


def captured(function, args, kwargs=None, dynamic=False) -> Captured:
    """Runs a function or module for these arguments in one graph.  CaptureError, with line and remedy, where it does
    not fit one."""
    seen = []

    def keep(module, inputs):
        def call(*values):
            results = module.forward(*values)
            seen.append((module, list(values), list(results)))
            return results
        return call

    owner = Owner(Exported(keep), fullgraph=True, dynamic=dynamic)
    owner.exporting, owner.spelled = True, spelled
    before = default_generator.place[1]
    result = compiled(function, owner)(*args, **(kwargs or {}))
    drawn = default_generator.place[1] - before
    module, inputs, results = seen[-1] if seen else (empty_module(), [], [])
    leaves, spec = tree_flatten(result)
    places = {id(value): ("output", k) for k, value in enumerate(results)}
    outputs = [places.get(id(leaf), ("input", leaf) if isinstance(leaf, Tensor) else ("constant", leaf))
               for leaf in leaves]
    segment = next(s for entry in owner.entries.values() for s in entry.segments)
    return Captured(module, inputs, outputs, spec, drawn, segment)
