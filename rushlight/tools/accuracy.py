"""Compiled graphs held against eager ones, operator by operator, with float64 as the judge of both.

    RUSHLIGHT_CHECK=accuracy python train.py        raises AccuracyError where a compiled graph differs, and names the first operator that does

A compiled result passes if it is about as close to float64 as the eager result is.
"""
from __future__ import annotations

import math

from .._src.capture.backends import GraphModule, run
from .._src.core.dtypes import bfloat16, complex128, complex64, float16, float32, float64
from .._src.core.native import Tensor
from .._src.graph.graph import Graph, Node, map_nodes, render

WIDER = {bfloat16: float64, float16: float64, float32: float64, complex64: complex128}
TOLERANCE = {bfloat16: 2e-2, float16: 2e-3, float32: 1e-4, complex64: 1e-4, float64: 1e-7, complex128: 1e-7}
MULTIPLE = 8.0  # how much farther from float64 than eager a compiled result may be


class AccuracyError(RuntimeError):
    """A compiled graph computes something else than its operators one by one.  ``node`` is the first that differs,
    ``module`` the graph."""

    def __init__(self, text, node, module):
        super().__init__(text)
        self.node, self.module = node, module


def error(found, wanted) -> float:
    """How far a result is from the wanted one, relative to its size; infinite where shapes, dtypes' kinds or missing
    numbers differ."""
    if type(found) is not type(wanted) and not (isinstance(found, Tensor) and isinstance(wanted, Tensor)):
        return math.inf
    if not isinstance(found, Tensor):
        return 0.0 if found == wanted or found != found and wanted != wanted else math.inf
    if tuple(found.shape) != tuple(wanted.shape):
        return math.inf
    if found.numel() == 0:
        return 0.0
    if not wanted.dtype.is_inexact:
        return 0.0 if bool((found == wanted).all()) else math.inf
    a, b = (t.detach().to(WIDER.get(t.dtype, t.dtype)) for t in (found, wanted))
    a, b = a.to(b.dtype), b
    usual = b.isfinite()
    if not bool((a.isfinite() == usual).all()) or not bool(((a == b) | (a.isnan() & b.isnan()) | usual).all()):
        return math.inf
    zero = b.new_zeros(())
    difference = (a - b).abs().where(usual, zero.abs())
    scale = b.abs().where(usual, zero.abs())
    return float((difference * difference).mean().sqrt()) / max(float((scale * scale).mean().sqrt()), 1e-12)


def agree(found, eager, exact) -> bool:
    """Whether a compiled result is right: close to the eager one, or about as close to the exact one as that is."""
    tolerance = TOLERANCE.get(getattr(eager, "dtype", None), 0.0)
    if error(found, eager) <= tolerance:
        return True
    return exact is not None and error(found, exact) <= MULTIPLE * error(eager, exact) + tolerance / 10


def copies(inputs, wide=False) -> list:
    """Inputs of their own for one run, floating ones in double precision if ``wide``."""
    made = []
    for x in inputs:
        if isinstance(x, Tensor):
            y = x.detach().clone()
            x = (y.to(WIDER[y.dtype]) if wide and y.dtype in WIDER else y).requires_grad_(x.requires_grad)
        made.append(x)
    return made


def results(call, inputs, plain=False) -> list:
    """Return the results of a call, its inputs' contents afterwards, and (unless ``plain``) the gradients of the inputs
    for the sum of all results."""
    leaves = list(inputs)
    # writing into leaves is not allowed
    given = [x * 1 if isinstance(x, Tensor) and x.requires_grad else x for x in leaves]
    outputs = list(call(*given))
    carrying = [] if plain else [o for o in outputs if isinstance(o, Tensor) and o.requires_grad
                                 and o.dtype.is_floating_point]
    gradients = []
    if carrying:
        from ..autograd import grad
        wanted = [x for x in leaves if isinstance(x, Tensor) and x.requires_grad]
        gradients = list(grad(sum(o.sum() for o in carrying), wanted, allow_unused=True))
    return [*outputs, *(x.detach() for x in given if isinstance(x, Tensor)), *gradients]


def exact_results(graph, inputs, plain):
    """The results in double precision; None where an operator refuses (mixed dtypes, for example)."""
    wide = Graph(graph.inputs, [widened(n) for n in graph.nodes], graph.outputs)
    try:
        return results(lambda *values: run(relinked(wide, graph), values), copies(inputs, wide=True), plain)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return None


def widened(node: Node) -> Node:
    """A node whose dtype parameters are double precision."""
    return Node(node.name, node.op, node.args,
                {k: WIDER.get(v, v) if v.__hash__ else v for k, v in node.params.items()}, node.meta, node.inside,
                node.where)


def relinked(graph: Graph, original: Graph) -> Graph:
    """A graph of copied nodes that read each other instead of the originals."""
    new = dict(zip(original.nodes, graph.nodes))

    def at(value):
        found = map_nodes(value, lambda n: new.get(n, n))
        return tuple(WIDER.get(v, v) if isinstance(v, type(float32)) else v
                     for v in found) if isinstance(found, tuple) else found

    for node in graph.nodes:
        node.args, node.params = at(tuple(node.args)), {k: map_nodes(v, lambda n: new.get(n, n))
                                                        for k, v in node.params.items()}
    return Graph(graph.inputs, graph.nodes, [new.get(o, o) for o in graph.outputs])


def differs(graph: Graph, compile, inputs, plain=False):
    """(position, compiled, eager) of the first result of a graph that is wrong compiled; None if all agree."""
    eager = results(lambda *values: run(graph, values), copies(inputs), plain)
    call = compile(GraphModule(graph, plain))
    found = results(call, copies(inputs), plain)
    exact = exact_results(graph, inputs, plain) or [None] * len(eager)
    for k, (a, b, c) in enumerate(zip(found, eager, exact)):
        if not agree(a, b, c):
            return k, a, b
    return None


def first_wrong(graph: Graph, compile, inputs, plain):
    """The first node whose value (or gradient) is wrong when the graph up to it is compiled; None where only the whole
    is wrong."""
    for k, node in enumerate(graph.nodes):
        if isinstance(node.meta, tuple) or node.op.name == "shift":
            continue
        part = Graph(graph.inputs, graph.nodes[:k + 1], [node])
        if differs(part, compile, inputs, plain) is not None:
            return node
    return None


def check(module: GraphModule, compile, inputs):
    """Compares a graph compiled and eager.  AccuracyError where they differ, naming the first operator that does."""
    found = differs(module.graph, compile, inputs, module.plain)
    if found is None:
        return
    position, compiled, eager = found
    node = first_wrong(module.graph, compile, inputs, module.plain)
    where = (f"\nfirst wrong: {render(node)}" + (f"\nat {node.where[0]}:{node.where[1]}" if node.where else "")
             if node is not None else "\nno operator alone: only the whole graph is")
    raise AccuracyError(
        f"a compiled graph differs from its operators run one by one: result {position} is off by "
        f"{error(compiled, eager):.3g} of its size.{where}\n"
        "RUSHLIGHT_CHECK=minify writes a small script that shows it.\n" + str(module.graph), node, module)


def watched(module: GraphModule, compile, mode: str):
    """The compiled graph, compared with the eager one at its first call with new kinds of inputs."""
    made, seen = [], set()

    def run_watched(*inputs):
        kind = tuple((x._rush_meta, x.requires_grad) if isinstance(x, Tensor) else type(x) for x in inputs)
        if kind not in seen:
            seen.add(kind)
            try:
                check(module, compile, inputs)
            except Exception as error:
                if mode == "minify":
                    from .minify import report
                    report(module, compile, inputs, error)
                raise
        if not made:
            made.append(compile(module))
        return made[0](*inputs)

    return run_watched
