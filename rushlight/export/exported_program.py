"""ExportedProgram: a program without the Python around it."""
from __future__ import annotations

import collections
import copy
import dataclasses
import operator

from .._src.core.devices import cpu
from .._src.core.dtypes import int64
from .._src.core.expr import size
from .._src.core.nodes import INFINITY
from .._src.core.shape_env import ShapeEnv
from .._src.core.meta import Meta
from .._src.core.native import Tensor
from .._src.core.options import accept_only
from .._src.core.pytree import tree_flatten
from .._src.transforms.trace import without_values
from .._ops import ops
from ..fx import Graph, GraphModule
from .._src.graph import graph as house
from .conditions import Size, bounds
from .dims import Dim, Hint
from .calling import ExportedModule, GuardFailed, Guards, Nested
from .decomp_utils import CustomDecompTable
from .ranges import Range, unbacked_ranges
from .graph_signature import ExportGraphSignature, InputKind, OutputKind


def default_decompositions() -> CustomDecompTable:
    """What ``run_decompositions`` takes where it is given no table: a new table, to be changed."""
    return CustomDecompTable()


def entered(value, varying, trace, symbols, sizes):
    """An input of a trace, with a symbol for each dynamic size: ``symbols`` has (symbol, size now) by name, ``sizes``
    (input, dimension) by symbol; the dimension is None if the input is an int itself."""
    names = {dim: getattr(getattr(free, "root", None), "__name__", None) or f"{len(symbols)}.{dim}"
             for dim, free in varying.items() if free is not None and value.shape[dim] > 1}
    forms = {dim: (getattr(varying[dim], "factor", 1), getattr(varying[dim], "offset", 0)) for dim in names}
    shape = list(value.shape)
    for k, (factor, offset) in forms.items():
        symbol, _ = symbols.setdefault(names[k], (size(f"s{len(symbols)}", 2), (shape[k] - offset) // factor))
        shape[k] = factor * symbol + offset
    made = trace.input(Meta.of(shape, value.dtype, value.device) if names else value._rush_meta)
    for k, form in forms.items():
        if form == (1, 0):
            sizes.setdefault(shape[k], (made.node, k))
    return made


def range_name(k: int, dim) -> str:
    """The name of a varying size of the k-th input, or of the input itself (``dim`` is None), that has no Dim."""
    return f"s{k}" if dim is None else f"s{k}_{dim}"


def entered_number(value: int, varying, symbols):
    """A symbol for an int input that varies; ``symbols`` as in ``entered``."""
    name = getattr(getattr(varying[None], "root", None), "__name__", None) or f"{len(symbols)}.number"
    symbol, _ = symbols.setdefault(name, (size(f"s{len(symbols)}", -INFINITY), value))
    return symbol


def traced_number(value: int, varying, trace, symbols, sizes):
    """A symbol for an int input that varies, which is an input of a trace: a tensor without dimensions."""
    symbol = entered_number(value, varying, symbols)
    sizes.setdefault(symbol, (trace.input(Meta.of((), int64, cpu)).node, None))
    return symbol


def narrowed(k: int, dim: int, hint: Hint, conditions) -> Hint:
    """The hint of a size within the bounds that conditions set."""
    low, high = hint.min, hint.max
    for size, least, most in filter(None, map(bounds, conditions)):
        if (size.leaf, size.dim) == (k, dim):
            low = max((one for one in (low, least) if one is not None), default=None)
            high = min((one for one in (high, most) if one is not None), default=None)
    return Hint(hint.text, low, high)


def equated(expected, conditions) -> list:
    """(shape, dtype, dimensions that vary) of each input, in which sizes that must be equal are one Dim, and hints have
    the bounds that the program assumes."""
    made = [(shape, dtype, {dim: narrowed(k, dim, free, conditions) if isinstance(free, Hint) else free
                            for dim, free in varying.items()}) for k, (shape, dtype, varying) in enumerate(expected)]
    for count, condition in enumerate(conditions):
        if condition[0] != "==" or not all(type(one) is Size for one in condition[1:]):
            continue
        first, second = ((made[s.leaf][2], s.dim) for s in condition[1:])
        known = [varying[dim] for varying, dim in (first, second)]
        if any(isinstance(one, Hint) for one in known):
            one = next((one for one in known if not isinstance(one, Hint)), joined(f"same{count}", known))
            for varying, dim in (first, second):
                varying[dim] = one if isinstance(varying[dim], Hint) else varying[dim]
    return made


def joined(name: str, hints) -> Dim:
    """A Dim of all the bounds that hints have."""
    most = [one.max for one in hints if one.max is not None]
    return Dim(name, min=max(one.min or 0 for one in hints), max=min(most, default=None))


GRADIENTS = (OutputKind.GRADIENT_TO_PARAMETER, OutputKind.GRADIENT_TO_USER_INPUT)
WRITES = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)


def pairs_by_name(pairs, values):
    """(name of the state or the input, the node that stands for it) of each input that is used."""
    for spec, node in pairs:
        if node in values:
            yield (spec.arg.name if spec.kind is InputKind.USER_INPUT else spec.target), values[node]


CallSpec = collections.namedtuple("CallSpec", "in_spec out_spec")
# results: Nodes of the trace, or constants; sizes: symbol -> (input, dimension)
Primitives = collections.namedtuple("Primitives", "graph results sizes names")


@dataclasses.dataclass
class ModuleCallSignature:
    """Call signature of a module of a program: its inputs and outputs, and the structures whose leaves they are."""

    inputs: list
    outputs: list
    in_spec: object
    out_spec: object
    forward_arg_names: list | None = None

    def replace_all_uses_with(self, original_node, new_node):
        """Writes another node's name where one is an input or an output."""
        for one in (*self.inputs, *self.outputs):
            if one.name == original_node.name:
                one.name = new_node.name


@dataclasses.dataclass
class ModuleCallEntry:
    """A module of a program by its name, and how it is called where that is kept."""

    fqn: str
    signature: ModuleCallSignature | None = None


def leave_out_of_state_dict(module, paths):
    """Make the buffers at these paths such that the module's state_dict() does not have them."""
    for path in paths:
        path, _, name = path.rpartition(".")
        owner = module.get_submodule(path)
        if name in owner._buffers:
            owner._non_persistent_buffers_set.add(name)


class ExportedProgram:
    """A graph of tensor operators with the state that it reads: ``graph``, ``graph_signature``, ``state_dict``;
    ``module()`` runs it."""

    def __init__(self, graph_module, signature: ExportGraphSignature, state_dict, constants, in_spec, out_spec,
                 expected, example_inputs, argument_names=(), conditions=()):
        self.conditions = tuple(conditions)
        self.argument_names = tuple(argument_names)
        self.graph_module, self.graph_signature, self.state_dict, self.constants = (graph_module, signature, state_dict,
                                                                                    constants)
        self.in_spec, self.out_spec, self.expected, self.example_inputs = in_spec, out_spec, expected, example_inputs
        self.unbacked = unbacked_ranges(graph_module.graph)  # {unbacked symbol: its bounds}
        root = ModuleCallSignature([], [], in_spec, out_spec, self.parameter_names)
        self.module_call_graph = [ModuleCallEntry("", root)]

    graph: Graph = property(lambda self: self.graph_module.graph)
    call_spec = property(lambda self: CallSpec(self.in_spec, self.out_spec))
    dialect = "TRAINING"

    @property
    def range_constraints(self) -> dict:
        """Return {name of a dynamic size or unbacked symbol: its least and greatest value}; None is no bound."""
        found: dict = {}
        for k, (_, _, varying) in enumerate(self.expected):
            for dim, free in varying.items():
                root, hint = getattr(free, "root", free), isinstance(free, Hint)
                known = narrowed(k, dim, root, self.conditions) if hint else root
                least = 0 if dim is None else 2
                low, high = max(least, known.min or 0) if hint and root.min is None else known.min, known.max
                found[getattr(root, "__name__", range_name(k, dim))] = Range(low, high)
        return found | self.unbacked

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead.")

    def named_parameters(self):
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def parameters(self):
        for _, value in self.named_parameters():
            yield value

    def named_buffers(self):
        for name in self.graph_signature.buffers:
            yield name, self.state_dict.get(name, self.constants.get(name))

    def buffers(self):
        for _, value in self.named_buffers():
            yield value

    def module(self, check_guards=True) -> ExportedModule:
        """A module that is called like the original.  RuntimeError for inputs of other shapes than it was exported
        for."""
        graph, values, pairs = Graph(), {}, list(zip(self.graph_signature.input_specs,
                                                     self.graph.find_nodes(op="placeholder")))
        for spec, node in pairs:
            if spec.kind is InputKind.USER_INPUT:
                values[node] = graph.placeholder(node.target)
                values[node].meta.update(node.meta)
        leaves, extra = list(values.values()), {}
        for spec, node in pairs:
            if spec.kind is not InputKind.USER_INPUT:
                values[node] = graph.get_attr(spec.target)
                values[node].meta.update(node.meta)
        if check_guards and leaves:
            graph.call_module("_guards_fn", tuple(leaves))
            extra["_guards_fn"] = Guards(self.expected, [node.name for node in leaves], self.conditions)
        results = graph.graph_copy(self.graph, values)
        graph.output(self.written_back(graph, results, dict(pairs_by_name(pairs, values))))
        graph.set_codegen(Nested(self.parameter_names, len(self.example_inputs[1]), self.in_spec, self.result_spec))
        flows = {node.target: operator.attrgetter(node.target)(self.graph_module)
                 for kind in ("call_module", "get_attr") for node in self.graph.find_nodes(op=kind)}
        made = ExportedModule({**self.constants, **self.state_dict, **flows, **extra}, graph, "GraphModule")
        leave_out_of_state_dict(made, self.constants)
        return made

    @property
    def result_spec(self):
        """Return the spec of ``module()``'s results: that of the module's results; with gradients, a tuple of all."""
        kinds = [spec.kind for spec in self.graph_signature.output_specs if spec.kind not in WRITES]
        return tree_flatten(tuple(kinds))[1] if any(kind in GRADIENTS for kind in kinds) else self.out_spec

    def written_back(self, graph, results, inputs) -> tuple:
        """Return the results for the caller, after copying mutated values into inputs.  ``inputs``: nodes by the name
        of their state or input."""
        user = []
        for spec, node in zip(self.graph_signature.output_specs, results):
            if spec.kind in WRITES:
                graph.call_function(ops.aten.copy_.default, (inputs[spec.target], node))
            else:
                user.append(node)
        return tuple(user)

    @property
    def parameter_names(self) -> list:
        """The names of what the module was called with."""
        args, kwargs = self.example_inputs
        names = list(self.argument_names[:len(args)])
        return [*names, *(f"args_{k}" for k in range(len(names), len(args))), *kwargs]

    def run_decompositions(self, decomp_table=None, decompose_custom_triton_ops=False) -> "ExportedProgram":
        """The same program for inference: without writes, in the operators that a table (overload: function) leaves.

        Without a table these are what PyTorch calls its core, and ``default_decompositions()`` is that table.  What is
        written to is an output more (``OutputKind.BUFFER_MUTATION``, ``USER_INPUT_MUTATION``).
        """
        from .rewriting import rewritten
        accept_only("run_decompositions", "an operator of triton_op() stays one call",
                    decompose_custom_triton_ops=(decompose_custom_triton_ops, False))
        return rewritten(self, default_decompositions() if decomp_table is None else decomp_table)

    def _update(self, graph_module, graph_signature, *, state_dict=None, constants=None,
                verifiers=None) -> "ExportedProgram":
        """This program with another graph and signature, and other state and constants where they are given."""
        made = copy.copy(self)
        made.graph_module, made.graph_signature = graph_module, graph_signature
        made.state_dict = self.state_dict if state_dict is None else state_dict
        made.constants = self.constants if constants is None else constants
        return made

    def given(self) -> list:
        """(value, (shape, dtype, dimensions that vary)) for each input of the graph: example arguments, and the state
        as it is."""
        named = {**self.constants, **self.state_dict}
        leaves = iter(zip(tree_flatten(self.example_inputs)[0], equated(self.expected, self.conditions)))
        return [next(leaves) if s.kind is InputKind.USER_INPUT else (named[s.target], (None, None, {}))
                for s in self.graph_signature.input_specs]

    def traced(self, given, module=None, keeps=None) -> "Primitives":
        """Trace the program, or a module like its own, to primitives; calls for which ``keeps(op, args, kwargs)``
        holds are one node each, as are choices (``Chosen``) and ``nonzero``.  RuntimeError if random numbers are
        drawn, or if the trace is not valid for all sizes."""
        from .primitives import Keeping, PrimitiveReader
        from .rewriting import Facts, assumed_conditions, ranges_of
        shape_env, symbols, sizes = ShapeEnv(), {}, {}
        trace = Keeping(keeps or (lambda op, args, kwargs: False), shape_env.hints)
        inputs = [entered(value, varying, trace, symbols, sizes) if isinstance(value, Tensor) else
                  traced_number(value, varying, trace, symbols, sizes) if None in varying else value
                  for value, (_, _, varying) in given]
        shape_env.hints.update(symbols.values())
        with shape_env, trace:
            missing = [name for name, (symbol, _) in symbols.items() if symbol not in sizes]
            if missing:
                raise RuntimeError(
                    f"no input has the size {missing[0]} itself, only multiples of it: export the program for "
                    "fixed sizes")
            with without_values("cannot be written in primitives: leave out what asserts or reads them, or pass a "
                                "decomposition table"):
                results = PrimitiveReader(module or self.graph_module, trace).run(*inputs)
            stores = [house.Store(value, node) for node, value in trace.written()]
        known = Facts(ranges_of(self, symbols), assumed_conditions(self, inputs))
        fixed = [f"{condition} is {outcome}" for condition, outcome in shape_env.guards if condition.op == "=="
                 and outcome and not known.decide(condition, outcome)]
        if trace.drawn or fixed:
            reason = "draws random numbers" if trace.drawn else f"is not the same for all sizes ({fixed[0]})"
            raise RuntimeError(
                f"a program that {reason} cannot be written in primitives: export it for fixed sizes, or pass a "
                "decomposition table")
        nodes = [r.node if isinstance(r, Tensor) else r for r in results]
        whole = house.splice(house.Graph(trace.inputs, trace.nodes,
                                         [*(n for n in nodes if isinstance(n, house.Node)), *stores]),
                             trace.kept).prune()
        return Primitives(whole, nodes, sizes, {symbol: name for name, (symbol, _) in symbols.items()})

    def __str__(self):
        body = self.graph_module.print_readable(False).rstrip()
        inputs = "\n".join(f"    {s.arg.name}: {s.kind.name}" + (f" target={s.target!r}" if s.target else "")
                           for s in self.graph_signature.input_specs)
        outputs = "\n".join(f"    {s.arg.name}: {s.kind.name}" for s in self.graph_signature.output_specs)
        text = "\n".join("    " + line for line in body.splitlines())
        ranges = f"Range constraints: {self.range_constraints}"
        return f"ExportedProgram:\n{text}\n\nGraph signature:\n    # inputs\n{inputs}\n    # outputs\n{outputs}\n{ranges}\n"
