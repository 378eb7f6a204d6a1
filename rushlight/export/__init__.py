"""Programs without the Python around them: ``export(module, args)``; PyTorch's ``torch.export``."""
from __future__ import annotations

import ast
import inspect
import math
import operator
import re

from .._src.capture.errors import ConstraintViolationError, UserError
from .._src.capture.constraints import constraints_of
from .._src.core.native import Tensor
from .._src.core.pytree import tree_flatten
from ..fx import GraphModule
from ..fx.convert import draw
from ..nn import Module, Parameter
from .arguments import ShapesCollection, register_dataclass
from .capturing import Untouched, captured
from .conditions import MORE, Checking, conditions_of
from .dims import Dim, dims, constraint_of, varying
from .exported_program import ExportedModule, ExportedProgram
from .graph_signature import (ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
                              TensorArgument)
from .unflatten import FlatArgsAdapter, UnflattenedModule, unflatten  # the function, not its module
from .._src.core.later import later

__all__ = ["export", "save", "load", "Dim", "dims", "ExportedProgram", "ExportedModule", "ExportGraphSignature",
           "ShapesCollection", "draft_export",
           "register_dataclass", "unflatten", "UnflattenedModule", "FlatArgsAdapter"]


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False,
           preserve_module_call_signature=()) -> ExportedProgram:
    """The program of a module for arguments like these, as one graph of tensor operators.

    ``dynamic_shapes``: for each argument the dimensions whose sizes vary, ``{"x": {0: Dim("batch")}}`` or in order;
      None elsewhere.
    TypeError if ``mod`` is no module or ``args`` no tuple; CaptureError, with line and remedy, for a module that does
    not fit one graph.

    >>> import rushlight as torch
    >>> program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),))
    >>> program.graph_signature.parameters
    ('weight', 'bias')
    >>> program.module()(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """
    if not isinstance(mod, Module):
        raise ValueError(
            f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}. Put a function into a module's "
            "forward.")
    if not isinstance(args, tuple):
        raise ValueError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    if isinstance(dynamic_shapes, ShapesCollection):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    return Exporting(mod, args, dict(kwargs or {}), dynamic_shapes).program()


def export_for_training(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False,
                        preserve_module_call_signature=()) -> ExportedProgram:
    """``export``, by the name that it had where it was another than that for inference.

    >>> import rushlight as torch
    >>> program = torch.export.export_for_training(torch.nn.ReLU(), (torch.ones(2),))
    >>> program.graph.find_nodes(op="call_function")[0].target
    <OpOverload(op='aten.relu', overload='default')>
    """
    return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
                  preserve_module_call_signature=preserve_module_call_signature)


def draft_export(mod, args, kwargs=None, *, dynamic_shapes=None, preserve_module_call_signature=(), strict=False,
                 prefer_deferred_runtime_asserts_over_guards=False) -> ExportedProgram:
    """As ``export``, which always names what does not fit with its line and remedy."""
    return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes)


def for_signature(mod, args, kwargs, dynamic_shapes):
    """``dynamic_shapes`` for each argument, by position and name."""
    if dynamic_shapes is None:
        return [None] * len(args), {}
    if isinstance(dynamic_shapes, dict):
        names = list(inspect.signature(mod.forward).parameters)
        unknown = set(dynamic_shapes) - set(names)
        if unknown:
            raise ValueError(f"dynamic_shapes names {sorted(unknown)}, but forward takes {names}")
        parameters = inspect.signature(mod.forward).parameters.values()
        rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
        more = next((dynamic_shapes.get(p.name) or {} for p in parameters if p.kind is p.VAR_KEYWORD), {})
        alone = [dynamic_shapes.get(p.name) for p in parameters
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return [*alone, *(dynamic_shapes.get(rest)
                          or [None] * len(args))][:len(args)], {k: dynamic_shapes.get(k, more.get(k)) for k in kwargs}
    names = [p.name for p in inspect.signature(mod.forward).parameters.values()]
    kinds = [p.kind for p in inspect.signature(mod.forward).parameters.values()]
    several = inspect.Parameter.VAR_POSITIONAL
    if several in kinds and len(dynamic_shapes) == kinds.index(several) + 1 and isinstance(
            dynamic_shapes[-1], (tuple, list)) and len(dynamic_shapes[-1]) == len(args) - kinds.index(several):
        return for_signature(mod, args, kwargs, dict(zip(names, dynamic_shapes)))
    return list(dynamic_shapes), {}


ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
              ast.Mod: operator.mod, ast.Div: operator.truediv, ast.Pow: operator.pow}
FUNCTIONS = {math.sqrt: (operator.pow, 0.5), float: (operator.mul, 1.0)}  # of a size, as arithmetic


def is_layer(kind) -> bool:
    """Whether a class of modules is a layer of this package: none that only holds others."""
    place = kind.__module__.removeprefix(__name__.partition(".")[0])
    return place.startswith((".nn.modules.", ".ao.")) and not place.endswith(".container")


class Exporting:
    """One export: the capture, and its graph rewritten to take state and inputs by name."""

    def __init__(self, mod, args, kwargs, dynamic_shapes):
        self.mod, self.args, self.kwargs = mod, args, kwargs
        self.leaves, self.in_spec = tree_flatten((args, kwargs))
        self.expected = self.expectations(*for_signature(mod, args, kwargs, dynamic_shapes))
        marked = [(leaf, free) for leaf, (_, _, free) in zip(self.leaves, self.expected) if isinstance(leaf, Tensor)
                  and free]
        before = [constraints_of(leaf) for leaf, _ in marked]
        for leaf, free in marked:
            leaf._dynamic_sizes = {k: constraint_of(dim) for k, dim in free.items()}
        try:
            with Untouched(mod, self.leaves):
                self.found = captured(mod, args, kwargs, dynamic=None if marked else False)
        except ConstraintViolationError as error:
            raise UserError(self.fixed(str(error))) from error
        finally:
            for (leaf, _), constraints in zip(marked, before):
                leaf._dynamic_sizes = constraints
        for leaf, free in marked:
            for k in [k for k, dim in free.items() if dim is Dim.AUTO and not self.found.varies(leaf, k)]:
                del free[k]
        self.conditions = conditions_of(self.found, self.leaves, self.expected)
        Checking(self.conditions, self.expected, self.input_names()).run()

    def fixed(self, error) -> str:
        """What is wrong where a size that is said to vary has one value, and what would mend it."""
        place = re.search(r"args\[(\d+)\]\.shape\[(\d+)\] was marked as varying, but the program needs it to be (\d+)",
                          error)
        leaf = self.args[int(place[1])] if place and int(place[1]) < len(self.args) else None
        found = next((free.get(int(place[2])) for value, (_, _, free) in zip(self.leaves, self.expected)
                      if value is leaf), None) if place else None
        name = getattr(found, "__name__", None)
        if name is None:
            return f"{error} In dynamic_shapes, leave that dimension out, or give it Dim.AUTO."
        return (f"Constraints violated ({name})! {MORE}\n  - You marked {name} as dynamic but your code specialized it "
                f"to be a constant ({place[3]}). {error}\nSuggested fixes:\n  {name} = {place[3]}")

    def expectations(self, positional, named):
        """(shape, dtype, varying dimensions) of each input leaf; (None, value, {}) where it is no tensor."""
        wanted = []
        for value, entry in [*zip(self.args, positional), *((v, named.get(k)) for k, v in self.kwargs.items())]:
            leaves = tree_flatten(value)[0]
            entries = [entry] if isinstance(value, Tensor) else list(entry.values() if isinstance(entry, dict)
                                                                     else entry or [None] * len(leaves))
            wanted += entries if len(entries) == len(leaves) else [None] * len(leaves)
        return [(tuple(leaf.shape), leaf.dtype, varying(leaf.shape, entry)) if isinstance(leaf, Tensor)
                else (None, leaf, {})
                for leaf, entry in zip(self.leaves, wanted)]

    def program(self) -> ExportedProgram:
        self.state = {**dict(self.mod.named_parameters(remove_duplicate=False)),
                      **dict(self.mod.named_buffers(remove_duplicate=False))}
        persistent = set(self.mod.state_dict())
        self.constants: dict = {}
        graph, specs = self.rewritten(persistent)
        state = {k: v for k, v in self.state.items() if k in persistent}
        self.constants.update((k, v) for k, v in self.state.items() if k not in persistent)
        signature = ExportGraphSignature(specs, [OutputSpec(OutputKind.USER_OUTPUT, self.argument(n))
                                                 for n in graph.output_node().args[0]])
        module = GraphModule(self.found.module, graph, "GraphModule")
        return ExportedProgram(module, signature, state, self.constants, self.in_spec, self.found.spec, self.expected,
                               (self.args, self.kwargs), self.argument_names(), self.conditions)

    @staticmethod
    def argument(value):
        return TensorArgument(value.name) if hasattr(value, "name") else ConstantArgument("", value)

    def rewritten(self, persistent):
        """The captured graph behind placeholders for state and inputs, in that order; and what they are."""
        from ..fx import Graph
        old, made, specs, values = self.found.module.graph, Graph(), [], {}
        placeholders = old.find_nodes(op="placeholder")
        by_id = {id(value): node for node, value in zip(placeholders, self.found.inputs) if isinstance(value, Tensor)}
        nodes: dict = {}  # id of a tensor -> its placeholder
        wanted = {**by_id, **{id(v): None for kind, v in self.found.outputs if kind == "input"}}
        for name, value in self.state.items():
            if id(value) in wanted and id(value) not in nodes:
                kind, prefix = (InputKind.PARAMETER, "p") if isinstance(value, Parameter) else (InputKind.BUFFER, "b")
                nodes[id(value)] = made.placeholder(f"{prefix}_{name.replace('.', '_')}")
                specs.append(InputSpec(kind, TensorArgument(nodes[id(value)].name), name,
                                       None if kind is InputKind.PARAMETER else name in persistent))
        inputs = {id(leaf) for leaf in self.leaves}
        for node, value in zip(placeholders, self.found.inputs):
            if isinstance(value, Tensor) and id(value) not in nodes and id(value) not in inputs:
                name = f"lifted_tensor_{len(self.constants)}"
                self.constants[name] = value
                nodes[id(value)] = made.placeholder(f"c_{name}")
                specs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(nodes[id(value)].name), name))
        for name, leaf in zip(self.input_names(), self.leaves):
            node = made.placeholder(name)
            nodes.setdefault(id(leaf), node) if isinstance(leaf, Tensor) else None
            specs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(node.name) if isinstance(leaf, Tensor)
                                   else ConstantArgument(node.name, leaf)))
        values.update((node, nodes[key]) for key, node in by_id.items())
        for key, node in by_id.items():
            nodes[key].meta.update(node.meta)
        self.numbers(made, placeholders, values, nodes)
        result = made.graph_copy(old, values)
        self.name_modules(made)
        written = {id(value): values[self.found.module.meta["written"][node]]
                   for node, value in zip(placeholders, self.found.inputs)
                   if node in self.found.module.meta.get("written", ())}
        inputs = {**nodes, **written}
        made.output(tuple(result[v] if kind == "output" else inputs[id(v)] if kind == "input" else v
                          for kind, v in self.found.outputs))
        made.eliminate_dead_code()
        return made, specs

    def name_modules(self, graph):
        """Says in ``meta["nn_module_stack"]`` in which calls of modules a node was: {key: (path, class)}, outermost
        first; "path@1" in a second call."""
        paths = {id(module): name for name, module in reversed(list(self.mod.named_modules()))}
        calls: dict = {}  # path -> numbers of its calls
        for node in graph.nodes:
            stack = {}
            for number, module in node.meta.pop("nn_module_stack", ()):
                path = paths.get(id(module))
                if path is not None:
                    numbers = calls.setdefault(path, [])
                    if number not in numbers:
                        numbers.append(number)
                    again = f"@{numbers.index(number)}" if numbers[0] != number else ""
                    kind, node_source = type(module), (path + again, type(module))
                    stack["L__self__" + (f"_{path.replace('.', '_')}" if path else "")
                          + again] = path + again, f"{kind.__module__}.{kind.__qualname__}"
            if stack:
                node.meta["nn_module_stack"] = stack
                if is_layer(node_source[1]):
                    node.meta["source_fn_stack"] = [node_source]

    def numbers(self, made, placeholders, values, nodes):
        """Placeholders that are numbers: sizes of inputs, and places in the random stream."""
        rest = []
        symbols = self.found.symbols()
        for node, value in zip(placeholders, self.found.inputs):
            if isinstance(value, Tensor):
                continue
            if node in symbols:
                values[node] = self.size(made, symbols[node], nodes)
            else:
                rest.append(node)
        if rest:
            if not self.found.drawn or len(rest) != 2:
                raise RuntimeError(
                    f"a size that varies does not belong to an input of the graph: {[n.name for n in rest]}. Pass the "
                    "tensor itself to the operators that use it.")
            if symbols:
                raise RuntimeError(
                    "random numbers are drawn for sizes that vary: export without dynamic_shapes, or in eval() if "
                    "dropout draws them")
            values.update(zip(rest, draw(made, self.found.drawn)))

    def size(self, made, tree, nodes):
        """A size of an input, or arithmetic on sizes, as nodes."""
        if isinstance(tree, ast.Constant):
            return tree.value
        if isinstance(tree, ast.BinOp) and type(tree.op) in ARITHMETIC:
            return made.call_function(ARITHMETIC[type(tree.op)],
                                      (self.size(made, tree.left, nodes), self.size(made, tree.right, nodes)))
        if isinstance(tree, ast.UnaryOp) and type(tree.op) is ast.USub:
            return made.call_function(operator.neg, (self.size(made, tree.operand, nodes),))
        if isinstance(tree, ast.Call) and len(tree.args) == 1 and not tree.keywords:
            function = self.found.owner_of(tree.func)
            known = next((told for one, told in FUNCTIONS.items() if one is function), None)
            if known is not None:
                return made.call_function(known[0], (self.size(made, tree.args[0], nodes), known[1]))
        if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Attribute) and tree.value.attr == "shape":
            found = nodes.get(id(self.found.owner_of(tree.value.value)))
            if found is not None:
                return made.call_method("size", (found, tree.slice.value))
        raise RuntimeError(
            f"a size that varies does not belong to an input of the graph: {ast.unparse(tree)}. Pass the tensor "
            "itself to the operators that use it.")

    def argument_names(self) -> list:
        """The parameters of ``forward`` that stand for one positional argument each, and names for the others."""
        parameters = inspect.signature(self.mod.forward).parameters.values()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
        return [*names[:len(self.args)], *(f"{rest}_{k}" for k in range(len(self.args) - len(names)))]

    def input_names(self):
        """Names of the input leaves, after the parameters of ``forward``."""
        names = self.argument_names()
        found = []
        for name, value in [*zip(names, self.args), *self.kwargs.items()]:
            leaves = tree_flatten(value)[0]
            found += [name] if len(leaves) == 1 and leaves[0] is value else [f"{name}_{k}" for k in range(len(leaves))]
        return found + [f"args_{k}" for k in range(len(found), len(self.leaves))]


def save(ep: ExportedProgram, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Writes a program to a file or path.  TypeError for anything but an ExportedProgram."""
    from .._src.programs import save as write
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead.")
    write(ep, f)


def load(f, *, extra_files=None, expected_opset_version=None, trusted=False) -> ExportedProgram:
    """Reads what ``save`` wrote, which may run any code: UnpicklingError for files that were not written here by this
    user, unless ``trusted``."""
    from .._src.programs import load as read
    return read(f, "torch.export.load", trusted)


__getattr__ = later(__name__, {"unflatten": ("unflatten", "UnflattenedModule", "InterpreterModule", "FlatArgsAdapter")})
