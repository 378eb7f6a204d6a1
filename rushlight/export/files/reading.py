"""Graphs and signatures out of JSON that may be hostile: every name is looked up in a table, and none is evaluated."""
from __future__ import annotations

import json
import keyword
import operator

from ..._ops import ops
from ..._src.core.expr import Expr
from ..._src.core.meta import Meta
from ..._src.core.op import OPS
from ..._subclasses.fake_tensor import FakeTensorMode
from ...fx import Graph, GraphModule
from ...fx.node import Node
from ...nn import Module, modules as layers
from ..graph_signature import (ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
                               SymBoolArgument, SymFloatArgument, SymIntArgument, TensorArgument)
from ..spelling import faked
from .fields import SerializeError, entries, field, float_of, of_kind, shown, union
from .sizes import read
from .targets import named
from .tensors import FORMATS, LAYOUTS, MOST_DIMENSIONS, device_of, dtype_of, known

RESERVED = frozenset((*vars(Module()), "forward", "graph", "code", "meta", "recompile"))  # what modules need themselves
DEEPEST = 20  # programs within programs, and lists within lists


def text_name(value, what="a name") -> str:
    """A name of a value: an identifier."""
    if type(value) is not str or not value.isidentifier() or keyword.iskeyword(
            value) or len(value) > 500:
        raise SerializeError(f"the file has {shown(value)} for {what}, where a name belongs")
    return value


def path(value, what: str) -> str:
    """A dotted name of state, none of whose parts is what modules need themselves.

    >>> path("layers.0.weight", "a parameter")
    'layers.0.weight'
    """
    of_kind(value, str, what)
    if not is_path(value):
        raise SerializeError(f"the file has {shown(value)} for the name of {what}, which is not allowed")
    return value


def is_path(value: str) -> bool:
    """Whether files have state of this name."""
    return all(part and f"_{part.replace('-', '_').replace(':', '_')}".isidentifier() and part not in RESERVED
               and not (part.startswith("__") and part.endswith("__")) for part in value.split("."))


class GraphReader:
    """Makes one graph.  ``symbols``: those of the whole program by name; ``modules`` gets the programs of control flow
    by name."""

    def __init__(self, record, symbols, mode=None, depth=0):
        if depth > DEEPEST:
            raise SerializeError("the programs of the file are nested too deeply")
        self.record, self.symbols, self.depth = record, symbols, depth
        self.mode = mode or FakeTensorMode(allow_non_fake_inputs=True)
        self.graph, self.modules, self.nodes, self.parts = Graph(), {}, {}, {}
        self.hints: dict = {}  # symbol -> its size in the example
        self.tensors = field(record, "tensor_values", dict)
        self.numbers = {key: field(record, key, dict, {}) for key in ("sym_int_values", "sym_bool_values",
                                                                     "sym_float_values")}

    def module(self, names=None) -> GraphModule:
        """The graph as a module; ``names``: what its inputs are called."""
        inputs = entries(self.record, "inputs", dict)
        for k, one in enumerate(inputs):
            self.placeholder(one, None if names is None else names[k])
        for one in entries(self.record, "nodes", dict):
            self.node(one)
        results = [self.value(one) for one in entries(self.record, "outputs", dict)]
        single = field(self.record, "is_single_tensor_return", bool, False)
        if single and len(results) != 1:
            raise SerializeError(f"a program of the file gives one result, and has {len(results)}")
        self.graph.output(results[0] if single else tuple(results))
        return GraphModule(self.modules, self.graph, "GraphModule")

    def placeholder(self, record, name):
        kind, value = union(record, "an input")
        own = self.name_in(kind, value) if kind in RESULTS else None
        if own is None and name is None:
            raise SerializeError(f"a program within the program has the input {shown(value)}")
        own = own or name
        node = self.graph.placeholder(text_name(own))
        if kind in RESULTS:
            self.note(node, kind, own)
            self.enter(own, node)

    @staticmethod
    def name_in(kind, value) -> str:
        """The name in the record of a result."""
        return text_name(field(value, "name" if kind == "as_tensor" else "as_name", str))

    def enter(self, name, node):
        if name in self.nodes:
            raise SerializeError(f"the file has two values named {name!r}")
        self.nodes[name] = node

    # --- calls --------------------------------------------------------------------------------------------------------
    def node(self, record):
        """One call, and nodes that pick its results."""
        target = named(field(record, "target", str))
        args, kwargs = [], {}
        for one in entries(record, "inputs", dict):
            name = field(one, "name", str)
            value = self.value(field(one, "arg", dict))
            if field(one, "kind", int, 1) == 2:
                kwargs[text_name(name)] = value
            elif kwargs:
                raise SerializeError(f"a call of {target} in the file has positional arguments behind named ones")
            else:
                args.append(value)
        first, last = GROUPS.get(target, (0, 0))
        args[first:last] = [tuple(a) if isinstance(a, list) else a for a in args[first:last]]
        outputs = entries(record, "outputs", dict)
        single = field(record, "is_hop_single_tensor_return", bool, None)
        whole = len(outputs) == 1 and union(outputs[0], "a result")[0] in RESULTS and not (
            getattr(target, "namespace", "") == "higher_order" and not single)
        name = self.name_in(*union(outputs[0], "a result")) if whole else field(record, "name", str, None)
        if name is not None:
            text_name(name)
        node = self.graph.call_function(target, tuple(args), kwargs, name=name)
        node.meta.update(self.metadata(field(record, "metadata", dict, {})))
        if whole:
            kind, value = union(outputs[0], "a result")
            self.note(node, kind, self.name_in(kind, value))
            self.enter(self.name_in(kind, value), node)
        elif outputs:
            self.several(node, outputs)

    def several(self, node, outputs):
        """Nodes that pick the results of a call."""
        first, value = union(outputs[0], "a result")
        if len(outputs) == 1 and first == "as_tensors":
            outputs = [{"as_tensor": of_kind(one, dict, "a result")} for one in of_kind(value, list, "results")]
        found = []
        for k, one in enumerate(outputs):
            kind, value = union(one, "a result")
            if kind == "as_none":
                found.append(None)
                continue
            if kind not in RESULTS:
                raise SerializeError(f"the file has a result of the kind {kind!r}")
            name = self.name_in(kind, value)
            made = self.graph.call_function(operator.getitem, (node, k), name=name)
            made.meta.update({key: one for key, one in node.meta.items() if key not in ("val", "source_fn_stack")})
            self.note(made, kind, name)
            self.enter(name, made)
            found.append(made.meta.get("val"))
            if name.endswith(f"_unused_{k}"):
                self.graph.erase_node(made)
        node.meta["val"] = tuple(found)

    def note(self, node, kind, name):
        """Set a value's metadata in the graph."""
        if kind == "as_tensor":
            if name not in self.tensors:
                raise SerializeError(f"the file does not say what {name!r} is")
            node.meta["val"] = self.fake(self.tensors[name])
        elif kind != "as_sym_float":
            record = self.numbers[KINDS[kind]].get(name)
            if record is not None:
                found = self.number(record)
                if found is not None:
                    node.meta["val"] = found

    def fake(self, record):
        """Return a fake tensor."""
        sizes, strides = ([self.number(one) for one in entries(record, key, dict)] for key in ("sizes", "strides"))
        if len(sizes) != len(strides) or len(sizes) > MOST_DIMENSIONS:
            raise SerializeError(f"a tensor of the file has {len(sizes)} sizes and {len(strides)} strides")
        for one in (*sizes, *strides):
            if not isinstance(one, Expr) and (type(one) is not int or one < 0) or isinstance(one, Expr) and (
                    one.dtype is not None):
                raise SerializeError(f"the file has {shown(one)} for a size")
        known(LAYOUTS, field(record, "layout", int), "a layout")
        dtype, device = dtype_of(field(record, "dtype", int)), device_of(field(record, "device", dict))
        made = faked(self.mode, Meta(tuple(sizes), tuple(strides), dtype, device))
        made._rush_needs_grad = int(field(record, "requires_grad", bool))
        return made

    def number(self, record):
        """An int, a truth or an expression."""
        kind, value = union(record, "a size")
        if kind != "as_expr":
            return of_kind(value, (int, bool, float, str), "a size")
        text = field(value, "expr_str", str)
        if text.startswith("Symbol('zuf"):
            return None
        found = read(text, self.symbols)
        hint = field(value, "hint", dict, None)
        if hint is not None and isinstance(found, Expr) and found.op == "size":
            self.hints[found] = of_kind(union(hint, "a hint")[1], (int, bool, float), "a hint")
        return found

    def metadata(self, record) -> dict:
        """Return the source metadata of a node."""
        made = {}
        if "stack_trace" in record:
            made["stack_trace"] = field(record, "stack_trace", str)
        if "nn_module_stack" in record:
            made["nn_module_stack"] = stack_of(field(record, "nn_module_stack", str))
        if "source_fn_stack" in record:
            made["source_fn_stack"] = [(name, found) for name, _, where in (
                part.partition(",") for part in field(record, "source_fn_stack", str).split(";"))
                if (found := source_of(where)) is not None]
        if "torch_fn" in record:
            made["torch_fn"] = tuple(field(record, "torch_fn", str).split(";"))
        if "custom" in record:
            try:
                made["custom"] = json.loads(field(record, "custom", str))
            except (ValueError, RecursionError):
                raise SerializeError("the file has metadata of a node that is no JSON") from None
        return made

    # --- arguments ----------------------------------------------------------------------------------------------------
    def value(self, record, depth=0):
        """An argument."""
        kind, value = union(record, "an argument")
        if kind in RESULTS:
            return self.named_value(kind, value)
        if kind in SCALARS:
            return SCALARS[kind](value)
        if kind == "as_graph":
            return self.program(value)
        if kind == "as_optional_tensor":
            return self.value(value, depth + 1)
        if depth > DEEPEST:
            raise SerializeError("the file has lists that are nested too deeply")
        if kind == "as_string_to_argument":
            return {of_kind(key, str, "a key"): self.value(one, depth + 1)
                    for key, one in of_kind(value, dict, kind).items()}
        if kind in ("as_list", "as_optional_tensors"):
            return [self.value(one, depth + 1) for one in of_kind(value, list, kind)]
        if kind in ITEMS:
            return [self.item(ITEMS[kind], one, depth) for one in of_kind(value, list, kind)]
        raise SerializeError(f"the file has an argument of the kind {kind[:40]!r}, which is not known")

    def item(self, kind, value, depth):
        """An element of a list; among symbols there may be numbers."""
        if kind.startswith("as_sym_") and type(value) is dict and "as_name" not in value:
            return self.value(value, depth + 1)
        return self.value({kind: value}, depth + 1)

    def named_value(self, kind, value):
        """A value by its name."""
        if kind != "as_tensor" and type(value) is dict and "as_name" not in value:
            return self.value(value, DEEPEST)
        name = self.name_in(kind, value)
        if name not in self.nodes:
            raise SerializeError(f"the file reads {name!r} before it is computed")
        return self.nodes[name]

    def program(self, record):
        """A program that control flow runs, as an attribute of the module."""
        name = text_name(field(record, "name", str))
        name = name if name not in self.modules and not hasattr(GraphModule, name) else f"{name}_{len(self.modules)}"
        inner = GraphReader(field(record, "graph", dict), self.symbols, self.mode, self.depth + 1)
        self.modules[name] = inner.module()
        return self.graph.get_attr(name)


# arguments of operators over programs that are tuples
GROUPS = {ops.higher_order.cond: (3, 4), ops.higher_order.while_loop: (2, 4), ops.higher_order.scan: (3, 4),
          ops.higher_order.associative_scan: (2, 3)}
RESULTS = ("as_tensor", "as_sym_int", "as_sym_bool", "as_sym_float")
KINDS = {"as_sym_int": "sym_int_values", "as_sym_bool": "sym_bool_values"}
SCALARS = {"as_none": lambda v: None, "as_int": lambda v: of_kind(v, int, "an argument"), "as_float": float_of,
           "as_string": lambda v: of_kind(v, str, "an argument"), "as_bool": lambda v: of_kind(v, bool, "an argument"),
           "as_scalar_type": dtype_of, "as_device": device_of,
           "as_layout": lambda v: known(LAYOUTS, v, "a layout"),
           "as_memory_format": lambda v: known(FORMATS, v, "an order of dimensions"),
           "as_operator": lambda v: named(of_kind(v, str, "an operator")),
           "as_complex": lambda v: complex(float_of(field(v, "real", (float, int, str))),
                                           float_of(field(v, "imag", (float, int, str))))}
ITEMS = {"as_tensors": "as_tensor", "as_ints": "as_int", "as_floats": "as_float", "as_strings": "as_string",
         "as_bools": "as_bool", "as_sym_ints": "as_sym_int", "as_sym_floats": "as_sym_float",
         "as_sym_bools": "as_sym_bool", "as_nested_tensors": "as_tensors", "as_int_lists": "as_ints",
         "as_float_lists": "as_floats"}


def stack_of(text) -> dict:
    """Return {key: (path, class)} of the module calls that contain a node."""
    parts = [part.split(",", 2) for part in text.split(";") if part]
    if any(len(part) != 3 for part in parts):
        raise SerializeError(f"the file has {shown(text)} for calls of modules")
    return {key: (path, kind) for key, path, kind in parts}


def source_of(name: str):
    """The layer or operator that a node comes from; None for one that is not known here."""
    if name.startswith("rushlight.ops."):
        return OPS.get(name.removeprefix("rushlight.ops."))
    found = getattr(layers, name.rpartition(".")[2], None) if name.startswith("torch.nn.modules.") else None
    return found if isinstance(found, type) else None


# --- signatures -------------------------------------------------------------------------------------------------------
ARGUMENTS = {"as_sym_int": SymIntArgument, "as_sym_float": SymFloatArgument, "as_sym_bool": SymBoolArgument}
INPUTS = {"parameter": (InputKind.PARAMETER, "parameter_name"), "buffer": (InputKind.BUFFER, "buffer_name"),
          "tensor_constant": (InputKind.CONSTANT_TENSOR, "tensor_constant_name")}
OUTPUTS = {"buffer_mutation": (OutputKind.BUFFER_MUTATION, "buffer_name"),
           "parameter_mutation": (OutputKind.PARAMETER_MUTATION, "parameter_name"),
           "user_input_mutation": (OutputKind.USER_INPUT_MUTATION, "user_input_name"),
           "gradient_to_parameter": (OutputKind.GRADIENT_TO_PARAMETER, "parameter_name"),
           "gradient_to_user_input": (OutputKind.GRADIENT_TO_USER_INPUT, "user_input_name")}


def node_name(reader, name: str) -> str:
    """Return the name of the node of a value of the file."""
    found = reader.nodes.get(name)
    if not isinstance(found, Node):
        raise SerializeError(f"the signature of the file names {shown(name)}, which is no value of its program")
    return found.name


def argument_of(reader, record):
    kind, value = union(record, "an argument")
    if kind == "as_tensor":
        return TensorArgument(node_name(reader, reader.name_in(kind, value)))
    if kind in ARGUMENTS and "as_name" in of_kind(value, dict, kind):
        return ARGUMENTS[kind](node_name(reader, reader.name_in(kind, value)))
    return ConstantArgument("", reader.value(record))


def input_of(reader, record, name) -> InputSpec:
    kind, value = union(record, "an input")
    if kind == "user_input":
        return InputSpec(InputKind.USER_INPUT, argument_of(reader, field(value, "arg", dict)))
    if kind == "constant_input":
        fixed = reader.value(field(value, "value", dict))
        return InputSpec(InputKind.USER_INPUT, ConstantArgument(name, fixed))
    if kind not in INPUTS:
        raise SerializeError(f"the program of the file has an input of the kind {kind[:40]!r}, which is not read")
    what, key = INPUTS[kind]
    arg = TensorArgument(node_name(reader, field(field(value, "arg", dict), "name", str)))
    persistent = field(value, "persistent", bool, True) if what is InputKind.BUFFER else None
    return InputSpec(what, arg, path(field(value, key, str), kind), persistent)


def output_of(reader, record) -> OutputSpec:
    kind, value = union(record, "an output")
    if kind == "user_output":
        return OutputSpec(OutputKind.USER_OUTPUT, argument_of(reader, field(value, "arg", dict)))
    if kind == "loss_output":
        return OutputSpec(OutputKind.LOSS_OUTPUT, argument_of(reader, {"as_tensor": field(value, "arg", dict)}))
    if kind not in OUTPUTS:
        raise SerializeError(f"the program of the file has an output of the kind {kind[:40]!r}, which is not read")
    what, key = OUTPUTS[kind]
    target = field(value, key, str)
    return OutputSpec(what, argument_of(reader, {"as_tensor": field(value, "arg", dict)}), target)


def names_of_inputs(record) -> list:
    """The names of a program's inputs, which its graph does not say of those that are fixed."""
    found = []
    for one in entries(record, "input_specs", dict):
        kind, value = union(one, "an input")
        found.append(text_name(field(value, "name", str)) if kind == "constant_input" else None)
    return found


def signature_of(reader, record) -> ExportGraphSignature:
    """The signature, which has to fit the graph."""
    specs = entries(record, "input_specs", dict)
    placeholders = reader.graph.find_nodes(op="placeholder")
    if len(specs) != len(placeholders):
        raise SerializeError(f"the program of the file has {len(placeholders)} inputs, and its signature {len(specs)}")
    inputs = [input_of(reader, one, node.name) for one, node in zip(specs, placeholders)]
    if any(s.arg.name != node.name for s, node in zip(inputs, placeholders)):
        raise SerializeError("the signature of the file has inputs in another order than its program")
    outputs = [output_of(reader, one) for one in entries(record, "output_specs", dict)]
    if len(outputs) != len(reader.graph.output_node().args[0]):
        raise SerializeError(f"the signature of the file has {len(outputs)} outputs, and its program others")
    return ExportGraphSignature(inputs, outputs)
