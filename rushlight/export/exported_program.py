"""ExportedProgram: a program without the Python around it."""
from __future__ import annotations

import collections
import copy

from .._src.aot.alias import Recording
from .._src.core.expr import size
from .._src.core.shape_env import ShapeEnv
from .._src.core.meta import Meta
from .._src.core.native import Tensor
from .._src.core.pytree import tree_flatten, tree_unflatten
from .._src.transforms.trace import without_values
from ..fx import CodeGen, Graph, GraphModule
from ..fx.code import PythonCode, Writer
from ..fx.convert import module_of, recorded_module
from ..fx.recording import Recorded
from .._src.graph import graph as house
from .checks import put_in, taken_out
from .decomp_utils import CustomDecompTable
from .dims import Hint
from .graph_signature import ExportGraphSignature, InputKind


def default_decompositions() -> CustomDecompTable:
    """What ``run_decompositions`` takes where it is given no table: a new table, to be changed."""
    return CustomDecompTable()


def entered(value, varying, trace, symbols, sizes):
    """An input of a trace, with a symbol for each size that varies: ``symbols`` has (symbol, size now) by name,
    ``sizes`` (input, dimension) by symbol."""
    names = {dim: getattr(getattr(free, "root", None), "__name__", None) or f"{len(symbols)}.{dim}"
             for dim, free in varying.items() if free is not None and value.shape[dim] > 1}
    forms = {dim: (getattr(varying[dim], "factor", 1), getattr(varying[dim], "offset", 0)) for dim in names}
    shape = list(value.shape)
    for k, (factor, offset) in forms.items():
        symbol, _ = symbols.setdefault(names[k], (size(f"s{len(symbols)}", 2), (shape[k] - offset) // factor))
        shape[k] = factor * symbol + offset
    made = trace.input(Meta.of(shape, value.dtype, value.device) if names else value._meta)
    for k, form in forms.items():
        if form == (1, 0):
            sizes.setdefault(shape[k], (made.node, k))
    return made


class GuardFailed(AssertionError, RuntimeError):
    """An input that a program was not exported for."""


class Nested(CodeGen):
    """Writes a graph of flat inputs and outputs as a function of nested ones."""

    def __init__(self, out_spec):
        self.out_spec = out_spec

    def _gen_python_code(self, graph, root_module, verbose=False) -> PythonCode:
        made = Writer(graph, root_module, verbose).write()
        _, _, body = made.src.partition(":\n")
        inputs = [node.name for node in graph.nodes if node.op == "placeholder"]
        renamed = [f"    {node.name} = {node.target}\n" for node in graph.nodes if node.op == "placeholder"
                   and node.name != node.target]
        for line in renamed:
            body = body.replace(line, "", 1)
        lines, result = body.rstrip().rsplit("return ", 1)
        unpack = f"    {', '.join(inputs)}{',' if inputs else ''} = {root_module}._inputs(args, kwargs)\n" if inputs else ""
        made.src = (f"\n\n\ndef forward({root_module}, *args, **kwargs):\n{unpack}{lines}return "
                    f"{root_module}._outputs({result})\n    ")
        return made

    def process_inputs(self, *args):
        return tree_flatten((args, {}))[0]

    def process_outputs(self, outputs):
        return tree_unflatten(list(outputs), self.out_spec)


class ExportedModule(GraphModule):
    """What ``ExportedProgram.module()`` gives: called like the original, with the same state."""

    def _inputs(self, args, kwargs):
        leaves, spec = tree_flatten((args, kwargs))
        if spec != self.in_spec:
            raise ValueError(f"the exported program takes arguments nested as {self.in_spec}, not as {spec}")
        self.check(leaves)
        return leaves

    def _outputs(self, results):
        return tree_unflatten(list(results), self.out_spec)

    def check(self, leaves):
        """RuntimeError for an input that the program was not exported for."""
        sizes: dict = {}
        for k, (leaf, (shape, dtype, varying)) in enumerate(zip(leaves, self.expected)):
            if shape is None:
                if leaf != dtype:
                    raise GuardFailed(
                        f"Guard failed: input {k} is {leaf!r}; the program was exported for {dtype!r} only")
                continue
            if not isinstance(leaf, Tensor) or leaf.dim() != len(shape) or leaf.dtype != dtype:
                raise GuardFailed(f"Guard failed: input {k} must be a tensor of {len(shape)} dimensions and {dtype}")
            for dim, (size, wanted) in enumerate(zip(leaf.shape, shape)):
                self.check_size(k, dim, size, wanted, varying.get(dim), sizes)

    def check_size(self, k, dim, size, wanted, free, sizes):
        if free is None:
            if size != wanted:
                raise GuardFailed(
                    f"Guard failed: input {k} has size {size} in dimension {dim}; the program was exported for "
                    f"{wanted}. "
                    "Name that dimension in dynamic_shapes when you export.")
        elif not isinstance(free, Hint):
            if size < free.min or free.max is not None and size > free.max:
                raise GuardFailed(
                    f"Guard failed: input {k} has size {size} in dimension {dim}; {free} allows {free.min} to "
                    f"{free.max}")
            value, rest = divmod(size - free.offset, free.factor)
            if rest:
                raise GuardFailed(
                    f"Guard failed: input {k} has size {size} in dimension {dim}, which is not {free.__name__}")
            if sizes.setdefault(free.root.__name__, value) != value:
                raise GuardFailed(
                    f"Guard failed: sizes named {free.root.__name__!r} differ: {sizes[free.root.__name__]} and {value}")

    def train(self, mode: bool = True):
        raise NotImplementedError(
            "Calling train() is not supported: an exported program has fixed whether it trains. Export the module "
            "again.")

    def eval(self):
        raise NotImplementedError(
            "Calling eval() is not supported: an exported program has fixed whether it trains. Export the module "
            "again.")


CallSpec = collections.namedtuple("CallSpec", "in_spec out_spec")
Range = collections.namedtuple("Range", "lower upper")
# results: Nodes of the trace, or constants; sizes: symbol -> (input, dimension)
Primitives = collections.namedtuple("Primitives", "graph results sizes names")


class ExportedProgram:
    """A graph of tensor operators with the state that it reads: ``graph``, ``graph_signature``, ``state_dict``;
    ``module()`` runs it."""

    def __init__(self, graph_module, signature: ExportGraphSignature, state_dict, constants, in_spec, out_spec,
                 expected, example_inputs):
        self.graph_module, self.graph_signature, self.state_dict, self.constants = (graph_module, signature, state_dict,
                                                                                    constants)
        self.in_spec, self.out_spec, self.expected, self.example_inputs = in_spec, out_spec, expected, example_inputs

    graph: Graph = property(lambda self: self.graph_module.graph)
    call_spec = property(lambda self: CallSpec(self.in_spec, self.out_spec))
    dialect = "TRAINING"

    @property
    def range_constraints(self) -> dict:
        """{name of a size that varies: its least and greatest value}, where None is no bound."""
        dims = [(f"s{k}_{dim}", getattr(free, "root", free)) for k, (_, _, varying) in enumerate(self.expected)
                for dim, free in varying.items()]
        return {getattr(free, "__name__", name): Range(getattr(free, "min", 0), getattr(free, "max", None))
                for name, free in dims}

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
        graph, values = Graph(), {}
        for spec, node in zip(self.graph_signature.input_specs, self.graph.find_nodes(op="placeholder")):
            values[node] = graph.placeholder(node.target) if spec.kind is InputKind.USER_INPUT else graph.get_attr(
                spec.target)
        graph.output(graph.graph_copy(self.graph, values))
        graph.set_codegen(Nested(self.out_spec))
        flows = {node.target: self.graph_module.get_submodule(node.target)
                 for node in self.graph.find_nodes(op="call_module")}
        made = ExportedModule({**self.constants, **self.state_dict, **flows}, graph, "ExportedModule")
        for name in ("in_spec", "out_spec", "expected"):
            object.__setattr__(made, name, getattr(self, name))
        return made

    def run_decompositions(self, decomp_table=None) -> "ExportedProgram":
        """The same program in primitives; with a table (overload: function), in the operators that the table leaves.

        ``default_decompositions()``, unchanged, means what no table means.
        """
        if isinstance(decomp_table, CustomDecompTable) and decomp_table.unchanged:
            decomp_table = None
        made = copy.copy(self)
        made.graph_module = self.decomposed(decomp_table)
        names = [n.name for n in made.graph.find_nodes(op="placeholder")]
        old = [n.name for n in self.graph.find_nodes(op="placeholder")]
        made.graph_signature = copy.deepcopy(self.graph_signature)
        renamed = dict(zip(old, names))
        for spec in made.graph_signature.input_specs:
            spec.arg.name = renamed.get(spec.arg.name, spec.arg.name)
        for spec, node in zip(made.graph_signature.output_specs, made.graph.output_node().args[0]):
            spec.arg.name = getattr(node, "name", spec.arg.name)
        return made

    def given(self) -> list:
        """(value, (shape, dtype, dimensions that vary)) for each input of the graph: example arguments, and the state
        as it is."""
        named = {**self.constants, **self.state_dict}
        leaves = iter(zip(tree_flatten(self.example_inputs)[0], self.expected))
        return [next(leaves) if s.kind is InputKind.USER_INPUT else (named[s.target], (None, None, {}))
                for s in self.graph_signature.input_specs]

    def decomposed(self, table):
        given = self.given()
        varies = any(isinstance(varying, dict) and varying for _, (_, _, varying) in given)
        if table and not varies:
            from ..fx.experimental.proxy_tensor import make_fx
            return make_fx(self.graph_module.forward, table)(*(value for value, _ in given))
        if table:
            raise RuntimeError(
                "a program with sizes that vary cannot be decomposed by a table: leave the table out, or export the "
                "program for fixed sizes")
        return self.in_primitives(given)

    def traced(self, given, module=None) -> "Primitives":
        """The program, or a module like its own, in primitives.  RuntimeError where random numbers are drawn, or where
        sizes that vary decide what they are."""
        trace, symbols, sizes = Recording(), {}, {}
        inputs = [entered(value, varying, trace, symbols, sizes) if isinstance(value, Tensor) else value
                  for value, (_, _, varying) in given]
        with ShapeEnv(dict(symbols.values())) as shape_env, trace:
            missing = [name for name, (symbol, _) in symbols.items() if symbol not in sizes]
            if missing:
                raise RuntimeError(
                    f"no input has the size {missing[0]} itself, of which others are multiples: export the program "
                    "for fixed sizes")
            with without_values("cannot be written in primitives: leave out what asserts or reads them, or pass a "
                                "decomposition table"):
                results = (module or self.graph_module)(*inputs)
            stores = [house.Store(value, node) for node, value in trace.written()]
        fixed = [f"{condition} is {outcome}" for condition, outcome in shape_env.guards if condition.op == "=="
                 and outcome]
        if trace.drawn or fixed or symbols and stores:
            reason = ("draws random numbers" if trace.drawn else f"is not the same for all sizes ({fixed[0]})" if fixed
                      else "writes into inputs whose sizes vary")
            raise RuntimeError(
                f"a program that {reason} cannot be written in primitives: export it for fixed sizes, or pass a "
                "decomposition table")
        nodes = [r.node if isinstance(r, Tensor) else r for r in results]
        whole = house.splice(house.Graph(trace.inputs, trace.nodes,
                                         [*(n for n in nodes if isinstance(n, house.Node)), *stores])).prune()
        return Primitives(whole, nodes, sizes, {symbol: name for name, (symbol, _) in symbols.items()})

    def in_primitives(self, given) -> GraphModule:
        """The program in primitives, as a module."""
        plain, errors = taken_out(self.graph_module)
        found = self.traced(given, plain)
        if found.sizes:
            spec = tree_flatten(tuple(range(len([r for r in found.results if isinstance(r, house.Node)]))))[1]
            recorded = Recorded(found.graph, found.graph.inputs, {}, [], 0, found.sizes, spec, {})
            module = recorded_module(recorded, [node.name for node in found.graph.inputs])
        else:
            module = module_of(found.graph)
        output = module.graph.output_node()
        made = iter(output.args[0])
        results = tuple(next(made) if isinstance(r, house.Node) else r for r in found.results)
        count = len(results) - len(errors)
        output.args = (results[:count],)
        put_in(module.graph, results[count:], errors)
        module.recompile()
        return module

    def __str__(self):
        body = self.graph_module.print_readable(False).rstrip()
        inputs = "\n".join(f"    {s.arg.name}: {s.kind.name}" + (f" target={s.target!r}" if s.target else "")
                           for s in self.graph_signature.input_specs)
        outputs = "\n".join(f"    {s.arg.name}: {s.kind.name}" for s in self.graph_signature.output_specs)
        text = "\n".join("    " + line for line in body.splitlines())
        return f"ExportedProgram:\n{text}\n\nGraph signature:\n    # inputs\n{inputs}\n    # outputs\n{outputs}\n"
