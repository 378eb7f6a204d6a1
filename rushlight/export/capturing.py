"""One run of a function under capture: its single graph, and what its inputs and outputs are to the function."""
from __future__ import annotations

import ast

from .._src.capture.constraints import VaryingInt
from .._src.capture.errors import UserError
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
    that it was; ``results``: the tensors that the graph gave;
    ``value_then``, ``written``: what its values were, and its inputs are, by the writes in it (AtenView);
    ``outputs``: for each leaf of the result ("output", k), ("input", tensor), ("size", syntax tree of sizes and of
      ``names``, {name of a number that the graph gave: its index}) or ("constant", value); ``spec``: how results are
      nested."""

    def __init__(self, module, inputs, results, outputs, spec, drawn, segment: Segment):
        self.module, self.inputs, self.results, self.outputs = module, inputs, results, outputs
        self.spec, self.drawn, self.segment = spec, drawn, segment
        self.guards, self.numbers = list(segment.guards), numbers_of(segment)
        self.names = result_names(segment.source, results)
        self.value_then, self.written = (module.meta.pop("value_then", None), module.meta.pop("written", {}))

    def symbols(self) -> dict:
        """For each placeholder that is a size or a varying int, or is computed of them: its text, as a syntax tree."""
        trees = [ast.parse(text, mode="eval").body for text in argument_texts(self.segment.source)]
        return {node: tree for node, tree in zip(self.module.graph.find_nodes(op="placeholder"), trees)
                if reads_size(tree, self.numbers)}

    def owner_of(self, tree):
        """The object that an expression of the segment names, as it was when the function was captured."""
        return value_in(self.segment, tree)

    def varies(self, leaf, dim) -> bool:
        """True if a size that was marked, or a varying int (``dim`` is None), may vary; those that the program never
        looks at may."""
        if dim is None:
            text = next((text for text, number in self.numbers.items() if number is leaf), None)
            return text is None or self.segment.varying[text]
        text = next((text for text, value in zip(argument_texts(self.segment.source), self.inputs) if value is leaf),
                    None)
        return text is None or self.segment.varying.get(f"{text}.shape[{dim}]", False)


class Untouched:
    """``with Untouched(module, tensors):`` what the block changes of the module's buffers and of these tensors is put
    back.  ``assigned``: (name, tensor before, tensor after) of buffers that the block replaced."""

    def __init__(self, module, leaves):
        self.places = [(f"{name}." if name else "", m, dict(m._buffers)) for name, m in module.named_modules()]
        self.assigned: list = []
        tensors = {id(t): t for t in (*module.buffers(), *leaves) if isinstance(t, Tensor) and not t.is_meta}
        self.before = [(t, t._version, t.detach().clone()) for t in tensors.values()]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for path, module, buffers in self.places:
            now = module._buffers
            self.assigned += [(path + name, before, now[name]) for name, before in buffers.items()
                              if now.get(name) is not before and isinstance(before, Tensor)]
            now.update(buffers)
        with no_grad():
            for tensor, version, value in self.before:
                if tensor._version != version:
                    tensor.copy_(value)


class Size(int):
    """An int computed from sizes: ``tree`` is its expression."""


class Real(float):
    """A float computed from sizes: ``tree`` is its expression."""


class Truth(int):
    """A bool computed from sizes: ``tree`` is its expression."""


MARKED = {int: Size, float: Real, bool: Truth, VaryingInt: Size}


def numbers_of(segment) -> dict:
    """{text of a varying int in a segment: the VaryingInt}."""
    found = {text: value_in(segment, ast.parse(text, mode="eval").body) for text in segment.varying}
    return {text: value for text, value in found.items() if type(value) is VaryingInt}


def value_in(segment, tree):
    """The value of an expression of a segment when it was captured."""
    return eval(ast.unparse(tree), {**segment.guard.__globals__, "V": segment.values})


def is_shape_item(node) -> bool:
    """True for ``tensor.shape[k]``."""
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape"


def is_size(node, numbers) -> bool:
    """True if an expression is the size of a dimension, or the text of a varying int."""
    return is_shape_item(node) or bool(numbers) and isinstance(node, ast.expr) and ast.unparse(node) in numbers


def reads_size(tree, numbers) -> bool:
    """True if an expression contains a dynamic size."""
    return any(is_size(part, numbers) for part in ast.walk(tree))


def result_names(source: str, results: list) -> dict:
    """Return {name in a segment of a number that its graph gave: its index among the results}."""
    calls = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)
             and isinstance(n.value.func, ast.Name) and n.value.func.id == "graph"]
    names = [name.id for name in calls[0].targets[0].elts] if calls else []
    return {name: k for k, (name, value) in enumerate(zip(names, results)) if isinstance(value, (int, float))}


class Sizes(ast.NodeTransformer):
    """Marks the Python expressions of a segment that depend on sizes, except inputs of its graph.  ``numbers``: the
    source text of dynamic ints, and of numbers that the graph gave."""

    def __init__(self, numbers):
        self.numbers, self.trees = numbers, []

    def visit(self, node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "graph":
            return node
        is_value = isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), (ast.Load, type(None)))
        if not is_value or not self.is_arithmetic(node):
            return self.generic_visit(node)
        if not reads_size(node, self.numbers):
            return node
        self.trees.append(node)
        return ast.Call(ast.Name("size_of", ast.Load()), [ast.Constant(len(self.trees) - 1), node], [])

    def is_arithmetic(self, node) -> bool:
        """True if an expression is a size, a number, or computed of them."""
        if is_size(node, self.numbers):
            return True
        if isinstance(node, ast.Call):
            return not node.keywords and all(map(self.is_arithmetic, node.args)) and not all(
                isinstance(one, ast.Constant) for one in node.args)
        if isinstance(node, ast.Compare):
            return all(map(self.is_arithmetic, (node.left, *node.comparators)))
        if isinstance(node, ast.UnaryOp):
            return self.is_arithmetic(node.operand)
        return isinstance(node, ast.Constant) or isinstance(node, ast.BinOp) and self.is_arithmetic(
            node.left) and self.is_arithmetic(node.right)


def sizes_among(segment, results, leaves) -> dict:
    """{number of a leaf of the result: ("size", syntax tree)} of those that a segment computes of sizes, or of numbers
    that its graph gave: its Python is run again.

    Raises:
        UserError: if another leaf of the result depends on such a number.
    """
    given = result_names(segment.source, results)
    marking = Sizes({**numbers_of(segment), **given})
    tree = marking.visit(ast.parse(segment.source))
    if not marking.trees:
        return {}

    def size_of(k, value):
        if type(value) not in MARKED:
            return value
        made = MARKED[type(value)](value)
        made.tree = marking.trees[k]
        return made

    def run_again(results):
        space = {**segment.run.__globals__, "graph": lambda *values: results, "size_of": size_of}
        exec(compile(ast.fix_missing_locations(tree), "<segment>", "exec"), space)
        found = tree_flatten(space[segment.run.__name__](segment.values, segment.arming.inputs)[1])[0]
        if len(found) != len(leaves):
            raise RuntimeError(f"the program gives {len(leaves)} results, and {len(found)} when it is run again")
        return found

    other = [MARKED[type(value)](value + 1) if k in given.values() else value for k, value in enumerate(results)]
    changed = run_again(other) if given else leaves
    found = run_again(list(results))  # last: it leaves the program's objects as they were
    for k, (one, leaf) in enumerate(zip(changed, found)):
        if isinstance(leaf, (*MARKED.values(), Tensor)) or type(one) is type(leaf) and (one is leaf or one == leaf):
            continue
        raise UserError(f"result {k} of the program, {leaf!r}, depends on a number that is read from a tensor, and is "
                        "no tensor, number or arithmetic on such numbers: return the number itself")
    return {k: ("size", leaf.tree) for k, leaf in enumerate(found) if isinstance(leaf, (Size, Real, Truth))}


def argument_texts(source: str) -> list:
    """Return the source text of the arguments that a segment passes to its graph."""
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
    places = {id(value): ("output", k) for k, value in enumerate(results) if isinstance(value, Tensor)}
    segment = next(s for entry in owner.entries.values() for s in entry.segments)
    sizes = sizes_among(segment, results, leaves)
    outputs = [sizes[k] if k in sizes else places.get(id(leaf), ("input", leaf) if isinstance(leaf, Tensor)
                                                      else ("constant", leaf)) for k, leaf in enumerate(leaves)]
    return Captured(module, inputs, results, outputs, spec, drawn, segment)
