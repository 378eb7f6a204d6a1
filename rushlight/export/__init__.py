"""Programs without the Python around them: ``export(module, args)``; PyTorch's ``torch.export``."""
from __future__ import annotations

import ast
import inspect
import math
import operator
import re

from .._src.capture.errors import ConstraintViolationError, UserError
from .._src.capture.constraints import VaryingInt, constraints_of
from .._src.core.expr import Expr, size as size_named
from .._src.core.nodes import INFINITY
from .._src.core.meta import Meta
from .._src.core.naming import FRAMEWORK, defining_module
from .._src.core.native import Tensor
from .._src.core.pytree import tree_flatten, tree_unflatten
from .._src.legacy import sym_max, sym_min
from .._ops import ops
from ..fx import GraphModule, Node
from ..fx.convert import draw
from ..nn import Module, Parameter
from .._subclasses.fake_tensor import FakeTensorMode
from .spelling import faked
from ..utils._pytree import tree_leaves_with_path
from .arguments import AdditionalInputs, ShapesCollection, path_name, register_dataclass  # noqa: F401
from .capturing import Untouched, captured, is_shape_item
from .comparisons import COMPARED, CONDITIONS, MIRRORED, OPPOSITE
from .conditions import MORE, Checking, conditions_of
from .dims import Dim, Hint, check_constant, constraint_of, dims, is_varying_int, varying_dims
from .exported_program import ExportedModule, ExportedProgram  # noqa: F401
from .graph_signature import (ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
                              SymBoolArgument, SymFloatArgument, SymIntArgument, TensorArgument)
from .module_calls import Noting, call_graph
from .shape_entries import entries_of_leaves
from .unflatten import FlatArgsAdapter, UnflattenedModule, unflatten  # the function, not its module
from ._draft_export import draft_export  # noqa: F401
from .._src.core.later import later


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=(),
           prefer_deferred_runtime_asserts_over_guards=False) -> ExportedProgram:
    """The program of a module for arguments like these, as one graph of tensor operators.

    ``dynamic_shapes``: for each argument the dynamic dimensions, ``{"x": {0: Dim("batch")}}`` or in order; None for
      others.  An int argument is dynamic if its entry is Dim.DYNAMIC or Dim.AUTO.  A ShapesCollection
      specifies it by tensor, AdditionalInputs by further examples.
    ``preserve_module_call_signature``: names of submodules whose calls keep their arguments and results
      (``module_call_graph``), so that ``unflatten`` gives modules that are called as these were.
    ``prefer_deferred_runtime_asserts_over_guards``: guards on sizes are checked when the program is called,
      even if some sizes that a ``Dim`` allows fail them, which is an error otherwise.
    ``strict`` changes nothing: bytecode is captured, whatever it says.
    ValueError if ``mod`` is no module, UserError if ``args`` is no tuple; CaptureError, with line and remedy, for a
    module that does not fit one graph.

    >>> import rushlight as torch
    >>> program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),))
    >>> program.graph_signature.parameters
    ('weight', 'bias')
    >>> program.module()(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """
    check_call(mod, args)
    others = dynamic_shapes if isinstance(dynamic_shapes, AdditionalInputs) else None
    if isinstance(dynamic_shapes, (AdditionalInputs, ShapesCollection)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    made = Exporting(mod, args, dict(kwargs or {}), dynamic_shapes, preserve_module_call_signature,
                     prefer_deferred_runtime_asserts_over_guards).program()
    if others is not None:
        others.verify(made)
    return made


def check_call(mod, args):
    """ValueError, or UserError, for what ``export`` does not take."""
    if not isinstance(mod, Module):
        raise ValueError(
            f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}. Put a function into a module's "
            "forward.")
    if not isinstance(args, tuple):
        raise UserError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")


def export_for_training(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False,
                        preserve_module_call_signature=(),
                        prefer_deferred_runtime_asserts_over_guards=False) -> ExportedProgram:
    """``export``, by the name that it had where it was another than that for inference.

    >>> import rushlight as torch
    >>> program = torch.export.export_for_training(torch.nn.ReLU(), (torch.ones(2),))
    >>> program.graph.find_nodes(op="call_function")[0].target
    <OpOverload(op='aten.relu', overload='default')>
    """
    return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
                  preserve_module_call_signature=preserve_module_call_signature,
                  prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards)


def check_names(dims):
    """UserError where two Dims of one name have different bounds."""
    known = {}
    for one in dims:
        found = known.setdefault(one.root.__name__, one.root)
        if (found.min, found.max) != (one.root.min, one.root.max):
            raise UserError(f"Found different definitions {found} and {one.root} for the same symbolic dimension")


def separate_inputs(mod, leaves: list) -> list:
    """Return the leaves with a copy of each tensor that another leaf, or the module's state, is, too: a program has an
    input for each, which calls may give other tensors."""
    taken = {id(one) for one in (*mod.parameters(), *mod.buffers())}
    found = []
    for leaf in leaves:
        if isinstance(leaf, Tensor) and id(leaf) in taken:
            leaf = leaf.detach().clone().requires_grad_(leaf.requires_grad)
        taken.add(id(leaf))
        found.append(leaf)
    return found


def copied(graph, node):
    """A node that copies a tensor."""
    made = graph.call_function(ops.aten.clone.default, (node,))
    made.meta["val"] = node.meta["val"]
    return made


def free_name(text: str, taken: set) -> str:
    """An identifier for state of this path that is not taken yet; it is from here on."""
    stem = name = re.sub(r"\W", "_", text)
    number = 0
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    taken.add(name)
    return name


WHOLE = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.neg, sym_min, sym_max)
ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
              ast.Mod: operator.mod, ast.Div: operator.truediv, ast.Pow: operator.pow}
KINDS = {int: SymIntArgument, float: SymFloatArgument, bool: SymBoolArgument}
FUNCTIONS = {math.sqrt: (operator.pow, 0.5), float: (operator.mul, 1.0), min: (sym_min,), max: (sym_max,),
             **{f: (f,) for f in (round, math.floor, math.ceil, math.trunc)}}  # of sizes, as arithmetic


def number_kind(node):
    """int, float or bool for a node that is a number; None for others."""
    value, given = node.meta.get("val"), [a.meta.get("val") for a in node.all_input_nodes]
    if isinstance(value, Expr):
        return int if value.dtype is None else bool
    if node.target is ops.aten.item.default:
        return float if isinstance(given[0], Tensor) and given[0].dtype.is_floating_point else int
    if node.target in OPPOSITE or node.target is operator.not_:
        return bool
    if node.target in (operator.truediv, operator.pow) or node.target in WHOLE and any(
            type(a) is float or isinstance(a, Node) and number_kind(a) is float for a in node.args):
        return float
    return int if node.target in (*WHOLE, *FUNCTIONS, ops.aten.sym_size.int) else None


def is_layer(kind) -> bool:
    """Whether a class of modules is a layer of this package: none that only holds others."""
    place = defining_module(kind).removeprefix(FRAMEWORK)
    return place.startswith((".nn.modules.", ".ao.")) and not place.endswith(".container")


class Exporting:
    """One export: the capture, and its graph rewritten to take state and inputs by name."""

    def __init__(self, mod, args, kwargs, dynamic_shapes, kept_calls=(), deferred=False, one_size=()):
        self.mod = mod
        self.leaves, self.in_spec = tree_flatten((args, kwargs))
        self.expected = [self.expect_leaf(*row) for row in entries_of_leaves(mod, args, kwargs, dynamic_shapes)]
        self.leaves = separate_inputs(mod, self.leaves)
        self.args, self.kwargs = tree_unflatten(self.leaves, self.in_spec)
        for k, dim in one_size:
            del self.expected[k][2][dim]
        self.leaves = [VaryingInt(leaf, constraint_of(free[None])) if None in free else leaf
                       for leaf, (_, _, free) in zip(self.leaves, self.expected)]
        args, kwargs = tree_unflatten(self.leaves, self.in_spec)
        check_names(d for _, _, free in self.expected for d in free.values() if not isinstance(d, Hint))
        marked = [(leaf, free) for leaf, (_, _, free) in zip(self.leaves, self.expected) if isinstance(leaf, Tensor)
                  and free]
        before = [constraints_of(leaf) for leaf, _ in marked]
        for leaf, free in marked:
            leaf._dynamic_sizes = {k: constraint_of(dim) for k, dim in free.items()}
        try:
            with Untouched(mod, self.leaves) as untouched, Noting(mod, kept_calls) as self.noting:
                varies = any(free for _, _, free in self.expected)
                self.found = captured(mod, args, kwargs, dynamic=None if varies else False)
        except ConstraintViolationError as error:
            raise self.fixed_number(error) or self.fixed(str(error)) from error
        finally:
            for (leaf, _), constraints in zip(marked, before):
                leaf._dynamic_sizes = constraints
        self.assigned = untouched.assigned
        for leaf, (_, _, free) in zip(self.leaves, self.expected):
            for k in [k for k, dim in free.items() if getattr(dim, "text", "") == "AUTO"
                      and not self.found.varies(leaf, k)]:
                del free[k]
        self.conditions = conditions_of(self.found, self.leaves, self.expected)
        if not deferred:
            self.check()

    def check(self):
        """UserError where sizes that the Dims allow do not meet what the program assumes."""
        Checking(self.conditions, self.expected, self.input_names()).run()

    def fixed(self, error) -> UserError:
        """Return the error of a dynamic size that has only one value, and its fix; ``place``: the index of the input
        leaf, and the dimension, if known."""
        place = re.search(r"args\[(\d+)\]\.shape\[(\d+)\] was marked as varying, but the program needs it to be (\d+)",
                          error)
        leaf = self.args[int(place[1])] if place and int(place[1]) < len(self.args) else None
        at = next((k for k, value in enumerate(self.leaves) if value is leaf and int(place[2]) in self.expected[k][2]),
                  None) if place else None
        name = None if at is None else getattr(self.expected[at][2][int(place[2])], "__name__", None)
        made = UserError(
            f"{error} In dynamic_shapes, leave that dimension out, or give it Dim.AUTO." if name is None else
            f"Constraints violated ({name})! {MORE}\n  - You marked {name} as dynamic but your code specialized it "
            f"to be a constant ({place[3]}). {error}\nSuggested fixes:\n  {name} = {place[3]}")
        made.place = None if at is None else (at, int(place[2]))
        return made

    def fixed_number(self, error) -> UserError | None:
        """Return the error of a dynamic int that the program needs as a constant; None for other errors."""
        constraint = getattr(error, "constraint", None)
        for name, leaf in zip(self.input_names(), self.leaves):
            if isinstance(leaf, VaryingInt) and leaf.constraint is constraint:
                return UserError(f"Constraints violated (L['{name}'])! {MORE}\n  - You marked L['{name}'] as dynamic "
                                 f"but your code specialized it to be a constant ({leaf:d}). {error} If you're using "
                                 "Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO.")
        return None

    @staticmethod
    def expect_leaf(leaf, entry, path) -> tuple:
        """(shape, dtype, varying dimensions) of an input leaf; (None, example, {None: hint}) of an int that varies, and
        (None, value, {}) of another input."""
        if isinstance(leaf, Tensor):
            return tuple(leaf.shape), leaf.dtype, varying_dims(leaf.shape, entry, path)
        if is_varying_int(leaf, entry):
            return None, leaf, {None: entry}
        check_constant(leaf, entry, path)
        return None, leaf, {}

    def program(self) -> ExportedProgram:
        self.state = {**dict(self.mod.named_parameters(remove_duplicate=False)),
                      **dict(self.mod.named_buffers(remove_duplicate=False))}
        persistent = set(self.mod.state_dict())
        self.constants: dict = {}
        self.sizes: dict = {}  # text of a size -> its node
        graph, specs = self.rewritten(persistent)
        state = {k: v for k, v in self.state.items() if k in persistent}
        self.constants.update((k, v) for k, v in self.state.items() if k not in persistent)
        signature = ExportGraphSignature(specs, [OutputSpec(OutputKind.USER_OUTPUT, self.argument(n))
                                                 for n in graph.output_node().args[0]])
        module = GraphModule(self.found.module, graph, "GraphModule")
        made = ExportedProgram(module, signature, state, self.constants, self.in_spec, self.found.spec, self.expected,
                               (self.args, self.kwargs), self.argument_names(), self.conditions)
        made.module_call_graph += call_graph(self.mod, self.noting.entries(self.node_then, self.argument))
        return made

    def node_then(self, leaf, before):
        """Return the node of a value at the time a module call was recorded; None for an unread one, constants
        unchanged."""
        found = self.found.value_then(leaf, before) if self.noting.notes.kept else leaf
        found = self.values.get(found, found) if isinstance(found, Node) else found
        return None if isinstance(found, Node) and found.graph is not self.graph else found

    @staticmethod
    def argument(value):
        if not isinstance(value, Node):
            return ConstantArgument("", value)
        found, kind = value.meta.get("val"), number_kind(value)
        return TensorArgument(value.name) if isinstance(found, Tensor) or kind is None else KINDS[kind](value.name)

    def rewritten(self, persistent):
        """The captured graph behind placeholders for state and inputs, in that order; and what they are."""
        from ..fx import Graph
        old, made, specs, values = self.found.module.graph, Graph(), [], {}
        placeholders = old.find_nodes(op="placeholder")
        by_id = {id(value): node for node, value in zip(placeholders, self.found.inputs) if isinstance(value, Tensor)}
        nodes: dict = {}  # id of a tensor -> its placeholder
        taken = set(self.input_names())
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        for name, value in sorted(self.state.items(), key=lambda item: not isinstance(item[1], Parameter)):
            kind, prefix = (InputKind.PARAMETER, "p") if isinstance(value, Parameter) else (InputKind.BUFFER, "b")
            node = made.placeholder(free_name(f"{prefix}_{name}", taken))
            nodes.setdefault(id(value), node)
            node.meta.setdefault("val", faked(mode, value._rush_meta))
            specs.append(InputSpec(kind, TensorArgument(node.name), name,
                                   None if kind is InputKind.PARAMETER else name in persistent))
        inputs = {id(leaf) for leaf in self.leaves}
        for node, value in zip(placeholders, self.found.inputs):
            if isinstance(value, Tensor) and id(value) not in nodes and id(value) not in inputs:
                name = self.attribute_name(value) or f"lifted_tensor_{len(self.constants)}"
                self.constants[name] = value
                nodes[id(value)] = made.placeholder(free_name(f"c_{name}", taken))
                specs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(nodes[id(value)].name), name))
        for name, leaf, (_, value, free) in zip(self.input_names(), self.leaves, self.expected):
            node = made.placeholder(name)
            if isinstance(leaf, Tensor) or free:
                nodes.setdefault(id(leaf), node)
            specs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(node.name) if isinstance(leaf, Tensor)
                                   else SymIntArgument(node.name) if free else ConstantArgument(node.name, value)))
        values.update((node, nodes[key]) for key, node in by_id.items())
        for key, node in by_id.items():
            nodes[key].meta.update(node.meta)
        self.describe(nodes)
        self.numbers(made, placeholders, values, nodes)
        result = made.graph_copy(old, values)
        self.graph, self.values, self.given = made, values, result
        calls: dict = {}
        for graph in (made, *(part.graph for part in self.found.module.modules()
                              if isinstance(part, GraphModule) and part is not self.found.module)):
            self.name_modules(graph, calls)
        written = {id(value): values[self.found.written[node]]
                   for node, value in zip(placeholders, self.found.inputs)
                   if node in self.found.written}
        inputs = {**nodes, **written}
        returned = [result[v] if kind == "output" else inputs[id(v)] if kind == "input" else self.size(
            made, v, nodes) if kind == "size" else v for kind, v in self.found.outputs]
        if self.assigned:
            computed = {id(value): node for value, node in zip(self.found.results, result)}
            self.write_assigned(made, returned, nodes, {**inputs, **computed})
        made.output(tuple(returned))
        made.eliminate_dead_code()
        return made, specs

    def write_assigned(self, made, returned: list, nodes: dict, values: dict):
        """Write the tensors that buffers were replaced by into the buffers' memory, which keeps their identity.  What
        is returned of the memory before is copied first.  ``values``: nodes by the id of their tensors."""
        memory = {before.untyped_storage().data_ptr() for _, before, _ in self.assigned}
        for k, (kind, v) in enumerate(self.found.outputs):
            value = self.found.results[v] if kind == "output" else v if kind == "input" else None
            if isinstance(value, Tensor) and value.untyped_storage().data_ptr() in memory:
                returned[k] = copied(made, returned[k])
        writes = []
        for name, before, after in self.assigned:
            if not isinstance(after, Tensor) or after.shape != before.shape:
                found = f"the shape {tuple(after.shape)}" if isinstance(after, Tensor) else repr(after)
                raise UserError(f"the module replaces its buffer {name}, of the shape {tuple(before.shape)}, by "
                                f"{found}: a program keeps the shapes of buffers")
            value = values.get(id(after))
            if value is None:
                raise UserError(f"the module replaces its buffer {name} by a tensor that the program does not compute")
            shares = after.untyped_storage().data_ptr() in memory
            writes.append((nodes[id(before)], copied(made, value) if shares else value))
        for buffer, value in writes:
            made.call_function(ops.aten.copy_.default, (buffer, value)).meta["val"] = buffer.meta["val"]

    def attribute_name(self, tensor):
        """The path of a tensor that is an attribute of a module, and no parameter or buffer; None for others."""
        for path, module in self.mod.named_modules():
            for name, value in vars(module).items():
                if value is tensor:
                    return f"{path}.{name}" if path else name
        return None

    def describe(self, nodes):
        """Add metadata to placeholders that the graph does not read; dynamic sizes are symbols."""
        known = {}
        for node, tree in self.found.symbols().items():
            if is_shape_item(tree) and node.meta.get("val") is not None:
                known[id(self.found.owner_of(tree.value.value)), tree.slice.value] = node.meta["val"]
            elif ast.unparse(tree) in self.found.numbers and isinstance(node.meta.get("val"), Expr):
                known[id(self.found.owner_of(tree)), None] = node.meta["val"]
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        varies = {id(leaf): free for leaf, (_, _, free) in zip(self.leaves, self.expected)}
        for leaf in (leaf for leaf in self.leaves if id(leaf) in nodes and isinstance(leaf, VaryingInt)):
            node = nodes[id(leaf)]
            node.meta["val"] = known.get((id(leaf), None), size_named(f"s_{node.name}", -INFINITY))
        tensors = (*self.leaves, *self.state.values(), *self.constants.values())
        for tensor in (t for t in tensors if id(t) in nodes and isinstance(t, Tensor)):
            node = nodes[id(tensor)]
            if "val" not in node.meta:
                meta, free = tensor._rush_meta, varies.get(id(tensor), {})
                shape = tuple(known.get((id(tensor), k)) or size_named(f"s_{node.name}_{k}") if k in free else n
                              for k, n in enumerate(meta.shape))
                node.meta["val"] = faked(mode, Meta.of(shape, meta.dtype, meta.device) if free else meta)

    def name_modules(self, graph, calls):
        """Says in ``meta["nn_module_stack"]`` in which calls of modules a node was: {key: (path, class)}, outermost
        first; "path@1" in a second call.  ``calls``: path -> numbers of its calls."""
        paths = {id(module): name for name, module in reversed(list(self.mod.named_modules()))}
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
        """Placeholders that are ints: sizes of inputs, and offsets in the RNG stream."""
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
                    f"a dynamic size does not belong to an input of the graph: {[n.name for n in rest]}. Pass the "
                    "tensor itself to the operators that use it.")
            if symbols:
                raise RuntimeError(
                    "random numbers are drawn for dynamic sizes: export without dynamic_shapes, or in eval() if "
                    "dropout draws them")
            values.update(zip(rest, draw(made, self.found.drawn)))

    def size(self, made, tree, nodes):
        """A size of an input, or arithmetic on sizes, as nodes: one for each text."""
        if isinstance(tree, ast.Constant):
            return tree.value
        key = ast.unparse(tree)
        if key not in self.sizes:
            self.sizes[key] = self.computed_size(made, tree, nodes)
        return self.sizes[key]

    def computed_size(self, made, tree, nodes):
        if isinstance(tree, ast.Name) and tree.id in self.found.names:
            return self.given[self.found.names[tree.id]]
        if ast.unparse(tree) in self.found.numbers:
            number = self.found.owner_of(tree)
            return nodes.get(id(number), int(number))  # one without a node has one value
        if isinstance(tree, ast.Compare) and len(tree.ops) == 1:
            return self.comparison(made, COMPARED[type(tree.ops[0])],
                                   *(self.size(made, part, nodes) for part in (tree.left, tree.comparators[0])))
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "logical_not":
            return self.opposite(made, self.size(made, tree.args[0], nodes))
        if isinstance(tree, ast.BinOp) and type(tree.op) in ARITHMETIC:
            return self.arithmetic(made, ARITHMETIC[type(tree.op)],
                                   *(self.size(made, part, nodes) for part in (tree.left, tree.right)))
        if isinstance(tree, ast.UnaryOp) and type(tree.op) is ast.USub:
            return self.arithmetic(made, operator.neg, self.size(made, tree.operand, nodes))
        if isinstance(tree, ast.Call) and not tree.keywords:
            function = self.found.owner_of(tree.func)
            known = next((told for one, told in FUNCTIONS.items() if one is function), None)
            if known is not None:
                called, *rest = known
                return self.arithmetic(made, called, *(self.size(made, part, nodes) for part in tree.args), *rest)
        if is_shape_item(tree):
            found = nodes.get(id(self.found.owner_of(tree.value.value)))
            if found is not None:
                size = made.call_function(ops.aten.sym_size.int, (found, tree.slice.value), name="sym_size_int")
                size.meta["val"] = found.meta["val"]._rush_meta.shape[tree.slice.value]
                return size
        raise RuntimeError(
            f"a dynamic size does not belong to an input of the graph: {ast.unparse(tree)}. Pass the tensor "
            "itself to the operators that use it.")

    @staticmethod
    def arithmetic(made, function, *given):
        """A node that computes with sizes; the number itself where none of them varies."""
        if not any(isinstance(v, Node) for v in given):
            return function(*given)
        node = made.call_function(function, given)
        values = [v.meta.get("val") if isinstance(v, Node) else v for v in given]
        if (function in WHOLE or function in CONDITIONS) and all(type(v) in (int, Expr) for v in values):
            node.meta["val"] = CONDITIONS.get(function, function)(*values)
        return node

    def comparison(self, made, function, a, b):
        """A node that compares sizes, a number last."""
        if isinstance(b, Node) and not isinstance(a, Node):
            function, a, b = MIRRORED[function], b, a
        return self.arithmetic(made, function, a, b)

    def opposite(self, made, condition):
        """A node for the opposite of a condition."""
        if isinstance(condition, Node) and condition.target in OPPOSITE:
            return self.arithmetic(made, OPPOSITE[condition.target], *condition.args)
        return self.arithmetic(made, operator.not_, condition)

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
            found += [path_name(name, path) for path, _ in tree_leaves_with_path(value)]
        found += [f"args_{k}" for k in range(len(found), len(self.leaves))]
        taken = set()
        for k, name in enumerate(found):  # leaves of one argument may be called as another argument
            number, given = 0, name
            while name in taken:
                number += 1
                name = f"{given}_{number}"
            taken.add(name)
            found[k] = name
        return found


def save(ep: ExportedProgram, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Writes a program to a file or path, in PyTorch's format (``files/``): nothing of it runs when it is read.

    ``extra_files``: {name: text} to keep in the archive.  TypeError for anything but an ExportedProgram and for an
    extra file that is no string, SerializeError for a program with what is no tensor, number, text or operator.
    ``opset_version``: {namespace of operators: version} that the file names besides that of aten.
    """
    from .files.programs import save as write
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead.")
    write(ep, f, extra_files, opset_version)


def load(f, *, extra_files=None, expected_opset_version=None, trusted=False) -> ExportedProgram:
    """Reads what ``save`` wrote, here or in PyTorch.  SerializeError for a damaged file, and for one that calls what is
    no known operator.

    ``extra_files``: a dict that is given all extra files of the archive, as {name: text}, unless it is empty; names
    that the archive does not have keep their values.  ``trusted``: read files of earlier versions that others wrote,
    too, which are pickles and may run any code.
    """
    from .._src.programs import load as read_pickle
    from .._src.packages.archive import FOREIGN, is_foreign
    from .files.fields import SerializeError
    from .files.programs import is_archive, load as read
    if not hasattr(f, "read"):
        with open(f, "rb") as file:
            return load(file, extra_files=extra_files, trusted=trusted)
    if is_archive(f):
        return read(f, extra_files)
    if is_foreign(f):
        raise SerializeError(FOREIGN)
    return read_pickle(f, "torch.export.load", trusted)


__getattr__ = later(__name__, {"unflatten": ("unflatten", "UnflattenedModule", "InterpreterModule", "FlatArgsAdapter")})
