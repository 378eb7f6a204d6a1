"""Exported programs written anew: the program, its signature and its results for another set of operators."""
from __future__ import annotations

import copy

from .._src.capture.errors import Break
from .._src.capture.unbacked import Assumptions
from .._src.core.expr import terms
from .._src.core.native import Tensor
from .._decomp import simpler
from ..library.decompositions import opened_form
from .dims import Hint
from .decomposing import DecomposedView, Program
from .exported_program import entered
from .graph_signature import (ConstantArgument, ExportGraphSignature, InputKind, OutputKind, OutputSpec,
                              TensorArgument)
from ..fx import GraphModule

MUTATION = {InputKind.BUFFER: OutputKind.BUFFER_MUTATION, InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
            InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION}

LARGEST_SIZE = 2 ** 48  # of a dimension without a bound: no memory holds more


class Inputs:
    """Stands for a trace where symbols are made for inputs: notes their Metas."""

    def __init__(self):
        self.metas = []

    def input(self, meta):
        self.metas.append(meta)
        return self

    node = None


def rewritten(program, table):
    """The program by a table.  RuntimeError where the operators decide by sizes that vary."""
    inputs, symbols, sizes, given = Inputs(), {}, {}, []
    for value, (_, _, varying) in program.given():
        if isinstance(value, Tensor):
            entered(value, varying, inputs, symbols, sizes)
            given.append(inputs.metas[-1])
        else:
            given.append(value)
    table = {called: opened_form(called) if function is simpler(called) else function
             for called, function in table.items()}
    shape_env = Assumptions()
    shape_env.hints.update(symbols.values())
    shape_env.check = lambda condition, error: False
    one = Program(program.graph_module, table, given, shape_env)
    try:
        results, written = one.run()
    except Break as error:
        raise RuntimeError(f"a program that asks for numbers that data decide cannot be decomposed: {error}") from error
    known = ranges_of(program, symbols)
    fixed = [f"{condition} is {outcome}" for condition, outcome in shape_env.guards
             if not follows(condition, outcome, known)]
    if fixed:
        raise RuntimeError(f"a program that is not the same for all sizes ({fixed[0]}) cannot be decomposed: export it "
                           "for fixed sizes")
    with shape_env:
        view = DecomposedView(one, [*written.values(), *results])
    made = copy.copy(program)
    made.graph_module = GraphModule(one.parts, view.graph)
    made.graph_signature = signature_of(program, view.graph, written)
    made.dialect = "ATEN"
    return made


def ranges_of(program, symbols) -> dict:
    """{symbol: (least, greatest value)} of the sizes that vary."""
    roots = {free.root.__name__: free.root for _, _, varying in program.expected for free in varying.values()
             if not isinstance(free, Hint)}
    found = {}
    for name, (symbol, _) in symbols.items():
        root = roots.get(name)
        low, high = (0, None) if root is None else (root.min, root.max)
        found[symbol] = max(low, symbol.low), LARGEST_SIZE if high is None else high
    return found


def follows(condition, outcome, ranges) -> bool:
    """Whether a condition on sizes comes out like this for all that the ranges allow."""
    if condition.op == "logical_not":
        return follows(condition.args[0], not outcome, ranges)
    if condition.op not in ("<", "=="):
        return False
    a, b = condition.args
    below, above = is_nonnegative(b - a - 1, ranges), is_nonnegative(a - b - (condition.op == "=="), ranges)
    return (below if outcome else above) if condition.op == "<" else not outcome and (below or above)


def is_nonnegative(e, ranges) -> bool:
    """Whether a sum of multiples of sizes is at least 0 for all that the ranges allow."""
    parts, least = terms(e)
    for symbol, factor in parts.items():
        if symbol not in ranges:
            return False
        least += factor * ranges[symbol][factor < 0]
    return least >= 0


def signature_of(program, graph, written) -> ExportGraphSignature:
    """The signature of the rewritten graph, whose first results are what inputs are worth afterwards."""
    old = program.graph_signature
    specs = dict(zip((n.name for n in program.graph.find_nodes(op="placeholder")), old.input_specs))
    nodes = graph.output_node().args[0]
    outputs = []
    for source, node in zip(written, nodes):
        spec = specs[source.name]
        target = spec.arg.name if spec.kind is InputKind.USER_INPUT else spec.target
        outputs.append(OutputSpec(MUTATION[spec.kind], TensorArgument(node.name), target))
    for spec, node in zip(old.output_specs, nodes[len(written):]):
        arg = TensorArgument(node.name) if hasattr(node, "name") else ConstantArgument("", node)
        outputs.append(OutputSpec(spec.kind, arg, spec.target))
    return ExportGraphSignature(copy.deepcopy(old.input_specs), outputs)
