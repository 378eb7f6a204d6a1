"""Rewriting of exported programs: the program, its signature and its results for another set of operators."""
from __future__ import annotations

import copy

from .._src.capture.errors import Break
from .._src.capture.unbacked import Assumptions
from .._src.core.expr import Expr, const, logical_not, terms
from .._src.core.native import Tensor
from .._src.packages.conditions import express_conditions, expressible
from .._decomp import simpler
from ..library.decompositions import opened_form
from .conditions import Checking, Size, Unknown, sizes_in, tree_of
from .dims import Hint
from .decomposing import DecomposedView, Program
from .exported_program import entered, entered_number
from .ranges import nonnegative_parts
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
    """Rewrite the program by a table.  RuntimeError if its operators branch on dynamic sizes."""
    inputs, symbols, sizes, given = Inputs(), {}, {}, []
    for value, (_, _, varying) in program.given():
        if isinstance(value, Tensor):
            entered(value, varying, inputs, symbols, sizes)
            given.append(inputs.metas[-1])
        else:
            given.append(entered_number(value, varying, symbols) if None in varying else value)
    table = {called: opened_form(called) if function is simpler(called) else function
             for called, function in table.items()}
    shape_env = Assumptions()
    shape_env.hints.update(symbols.values())
    shape_env.check = lambda condition, error: False
    one = Program(program.graph_module, table, given, shape_env)
    try:
        results, written = one.run()
    except Break as error:
        raise RuntimeError(f"a program that reads data-dependent numbers cannot be decomposed: {error}") from error
    known = Facts(ranges_of(program, symbols), assumed_conditions(program, given))
    assumed = [guard for guard in shape_env.guards if not known.decide(*guard)]
    conditions = further_conditions(program, places_of(program, given), assumed)
    with shape_env:
        view = DecomposedView(one, [*written.values(), *results])
    made = copy.copy(program)
    made.graph_module = GraphModule(one.parts, view.graph)
    made.graph_signature = signature_of(program, view.graph, written)
    made.dialect = "ATEN"
    made.conditions = (*program.conditions, *conditions)
    return made


def places_of(program, given) -> dict:
    """Return {symbol: the tree of the size of an input that it is}."""
    user = [value for spec, value in zip(program.graph_signature.input_specs, given)
            if spec.kind is InputKind.USER_INPUT]
    found: dict = {}
    for k, (value, (_, _, varying)) in enumerate(zip(user, program.expected)):
        for dim in varying:
            e = value if dim is None else value.shape[dim]
            if isinstance(e, Expr):
                ((symbol, factor),), offset = terms(e)[0].items(), terms(e)[1]
                place = ("-", Size(k, dim), offset) if offset else Size(k, dim)
                found.setdefault(symbol, ("//", place, factor) if factor != 1 else place)
    return found


def further_conditions(program, places: dict, assumed: list) -> list:
    """Return what the decomposed program assumes of sizes as conditions, which its calls are checked by.

    Args:
        places: the size that each symbol is.
        assumed: (condition, outcome) that do not follow from what the program assumes.

    Raises:
        RuntimeError: if a condition is not about sizes of inputs, or a named Dim allows sizes that do not meet it.
    """
    found = []
    for condition, outcome in assumed:
        try:
            tree = tree_of(condition if outcome else logical_not(condition), places)
        except Unknown:
            refuse_sizes(condition, outcome)
        sizes = sizes_in(tree)
        checking = Checking([tree], program.expected, program.parameter_names)
        if not any(isinstance(checking.dim(one), Hint) for one in sizes) and checking.fails(tree, sizes):
            refuse_sizes(condition, outcome)
        found.append(tree)
    return found


def refuse_sizes(condition, outcome):
    """RuntimeError for a program that needs this outcome of a condition."""
    raise RuntimeError(f"a program that is not the same for all sizes ({condition} is {outcome}) cannot be decomposed: "
                       "export it for fixed sizes, or with a narrower Dim")


def assumed_conditions(program, given) -> set:
    """The conditions that calls of the program are checked for, as expressions of the symbols in ``given``."""
    user = [value for spec, value in zip(program.graph_signature.input_specs, given)
            if spec.kind is InputKind.USER_INPUT]
    known = [one for one in program.conditions if expressible(one)]
    return set(express_conditions(known, lambda one: user[one.leaf] if one.dim is None
                                  else user[one.leaf].shape[one.dim]))


def ranges_of(program, symbols) -> dict:
    """Return {symbol: (least, greatest value)} of the dynamic sizes."""
    roots = {free.root.__name__: free.root for _, _, varying in program.expected for free in varying.values()
             if not isinstance(free, Hint)}
    found = {}
    for name, (symbol, _) in symbols.items():
        root = roots.get(name)
        low, high = (0, None) if root is None else (root.min, root.max)
        low = max(low, symbol.low) if symbol.low >= 0 else -LARGEST_SIZE  # an int that varies may be negative
        found[symbol] = low, LARGEST_SIZE if high is None else high
    return found


class Facts:
    """The ranges of sizes, and conditions on them that hold."""

    def __init__(self, ranges: dict, conditions: set):
        self.ranges, self.conditions = ranges, conditions
        self.nonnegative = [e for condition in conditions for e in (*nonnegative_parts(condition),
                                                                    *multiples(condition))]

    def decide(self, condition, outcome) -> bool:
        """True if it follows that a condition has this outcome."""
        if condition.op == "logical_not":
            return self.decide(condition.args[0], not outcome)
        if (condition if outcome else logical_not(condition)) in self.conditions:
            return True
        if condition.op not in ("<", "=="):
            return False
        a, b = condition.args
        if condition.op == "==" and outcome:
            return self.is_nonnegative(a - b) and self.is_nonnegative(b - a)
        below, above = self.is_nonnegative(b - a - 1), self.is_nonnegative(a - b - (condition.op == "=="))
        return (below if outcome else above) if condition.op == "<" else below or above

    def is_nonnegative(self, e) -> bool:
        """True if an integer is at least 0: alone, or added to one that is."""
        return self.least(e) >= 0 or any(self.least(e - known) >= 0 for known in self.nonnegative)

    def least(self, e):
        """The least value of a sum of multiples of sizes; -1 if it has none that is known."""
        parts, least = terms(e)
        for symbol, factor in parts.items():
            if symbol not in self.ranges:
                return -1
            least += factor * self.ranges[symbol][factor < 0]
        return least


def multiples(condition) -> list:
    """Integers that are at least 0 because one size divides another."""
    if condition.op != "==" or condition.args[0] is not const(0) or condition.args[1].op != "%":
        return []
    a, b = condition.args[1].args
    rest = a - (a // b) * b
    return [rest, -rest]


def signature_of(program, graph, written) -> ExportGraphSignature:
    """Return the signature of the rewritten graph; its first results are the mutated inputs."""
    old = program.graph_signature
    specs = dict(zip((n.name for n in program.graph.find_nodes(op="placeholder")), old.input_specs))
    nodes = graph.output_node().args[0]
    outputs = []
    for source, node in zip(written, nodes):
        spec = specs[source.name]
        target = spec.arg.name if spec.kind is InputKind.USER_INPUT else spec.target
        outputs.append(OutputSpec(MUTATION[spec.kind], TensorArgument(node.name), target))
    for spec, node in zip(old.output_specs, nodes[len(written):]):
        kind = TensorArgument if isinstance(spec.arg, ConstantArgument) else type(spec.arg)
        arg = kind(node.name) if hasattr(node, "name") else ConstantArgument("", node)
        outputs.append(OutputSpec(spec.kind, arg, spec.target))
    return ExportGraphSignature(copy.deepcopy(old.input_specs), outputs)
