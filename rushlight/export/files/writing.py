"""A graph and its signature as JSON, in the schema that PyTorch's files have."""
from __future__ import annotations

import json
import operator

from ..._ops import OpOverload
from ..._src.compat.homes import name_in_files
from ..._src.core.convert import layout, memory_format
from ..._src.core.devices import device as Device
from ..._src.core.dtypes import dtype as Dtype
from ..._src.core.expr import Expr
from ..._src.core.native import Op, Tensor
from ..._src.core.op import OPS
from ..._src.core.random import default_generator
from ..._higher_order_ops.operators import HigherOrderOperator
from ...fx import GraphModule
from ...fx.node import Node
from ..graph_signature import (ConstantArgument, CustomObjArgument, InputKind, OutputKind, SymBoolArgument,
                               SymFloatArgument, SymIntArgument, TensorArgument)
from .fields import SerializeError, float_text
from .sizes import written
from .targets import SYMBOLIC, name_of
from .tensors import FORMATS, LAYOUTS, device_record, key_in, meta_record, number_of

COMPARING = [SYMBOLIC[f"_operator.{name}"] for name in ("eq", "ne", "le", "ge", "lt", "gt", "not_")]
NAMES = {"as_sym_int": "sym_int_values", "as_sym_float": "sym_float_values", "as_sym_bool": "sym_bool_values"}
ARGUMENTS = {SymIntArgument: "as_sym_int", SymFloatArgument: "as_sym_float", SymBoolArgument: "as_sym_bool"}
POSITIONAL, KEYWORD = 1, 2
INVENTED = 1000  # from which symbols are counted that stand for numbers without a name


class GraphWriter:
    """One graph as JSON.  ``symbols``: names of the symbols of the whole program; ``module`` has the programs that
    control flow runs."""

    def __init__(self, module: GraphModule, symbols: dict, hints: dict, single=False, invented=None):
        self.module, self.symbols, self.hints, self.single = module, symbols, hints, single
        self.invented = set() if invented is None else invented  # names of numbers of data that nothing here names
        self.kinds: dict = {}  # node -> what it is: "as_tensor", "as_sym_int", ...
        self.names: dict = {}  # node -> its name in the file, where that is another's
        self.made = {"inputs": [], "outputs": [], "nodes": [], "tensor_values": {}, "sym_int_values": {},
                     "sym_bool_values": {}, "is_single_tensor_return": single, "custom_obj_values": {},
                     "sym_float_values": {}}

    def record(self, constants=None) -> dict:
        """The JSON of the graph; ``constants``: {name of a placeholder: the value that it is fixed to}."""
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                fixed = node.name in (constants or {})
                self.made["inputs"].append(self.value(constants[node.name]) if fixed else self.result(node))
            elif node.op == "call_function" and node.target is not operator.getitem:
                self.made["nodes"].append(self.node(node))
            elif node.op == "call_function" and node not in self.kinds:
                self.made["nodes"].append(self.node(node))
            elif node.op == "output":
                results = node.args[0]
                self.made["outputs"] = [self.value(r) for r in (
                    results if isinstance(results, (tuple, list)) else (results,))]
            elif node.op not in ("get_attr", "call_function"):
                raise SerializeError(f"the node {node.name} ({node.op} of {node.target}) cannot be saved: a file has "
                                     "calls of operators only")
        return self.made

    # --- what nodes give ----------------------------------------------------------------------------------------------
    def node(self, node) -> dict:
        """One call."""
        single = None
        if isinstance(node.target, HigherOrderOperator):
            single = isinstance(node.meta.get("val"), Tensor)
        return {"target": name_of(node.target), "inputs": self.inputs(node), "outputs": self.outputs(node),
                "metadata": metadata(node), "is_hop_single_tensor_return": single, "name": node.name}

    def outputs(self, node) -> list:
        """The results of a call, by the names of the nodes that read them."""
        value = node.meta.get("val")
        picked = {user.args[1]: user for user in reversed(node.users) if user.target is operator.getitem
                  and user.args[0] is node and type(user.args[1]) is int}
        if node.target == default_generator.reserve:
            value = (0, 0)
        if not isinstance(value, (tuple, list)):
            return [] if gives_nothing(node.target) else [self.result(node)]
        schema = getattr(node.target, "schema", None)
        records = [self.part(node, k, one, picked.get(k)) for k, one in enumerate(value)]
        # one record of a tensor is read as a result by itself, which a tuple of one is not
        is_tuple_of_one = isinstance(node.target, Op) and len(records) == 1 and "as_tensor" in records[0]
        if schema is not None and len(schema.returns) == 1 or is_tuple_of_one:
            return [{"as_tensors": [r["as_tensor"] for r in records]}]
        return records

    def part(self, node, k, value, user) -> dict:
        """One of several results."""
        if value is None:
            return {"as_none": True}
        name = user.name if user is not None else f"{node.name}_unused_{k}"
        record = self.described(name, value, None)
        for one in node.users:
            if one.target is operator.getitem and one.args[0] is node and one.args[1] == k:
                self.kinds[one], self.names[one] = next(iter(record)), name  # several may read it: by one name
        return record

    def result(self, node) -> dict:
        record = self.described(node.name, node.meta.get("val"), node)
        self.kinds[node] = next(iter(record))
        return record

    def described(self, name, value, node) -> dict:
        """Return the record of a result, and record its metadata."""
        if isinstance(value, Tensor):
            meta = value._rush_meta
            self.made["tensor_values"][name] = meta_record(
                meta.dtype, list(map(self.size, meta.shape)), list(map(self.size, meta.strides)), value.device,
                bool(getattr(value, "_rush_needs_grad", False)), {"as_int": 0})
            return {"as_tensor": {"name": name}}
        kind = self.number_kind(value, node)
        self.made[NAMES[kind]][name] = self.number_value(name, value, kind)
        return {kind: {"as_name": name}}

    def number_kind(self, value, node) -> str:
        if isinstance(value, Expr):
            return "as_sym_int" if value.dtype is None else "as_sym_bool"
        if node is None:
            return "as_sym_int"
        if node.target in COMPARING:
            return "as_sym_bool"
        given = [a.meta.get("val") for a in node.all_input_nodes]
        reads = getattr(node.target, "_opname", "") in ("item", "_local_scalar_dense")
        if reads and isinstance(given[0], Tensor):
            dtype = given[0].dtype
            return ("as_sym_float" if dtype.is_floating_point else "as_sym_bool" if dtype.name == "bool"
                    else "as_sym_int")
        real = node.target in (operator.truediv,) or any(self.kinds.get(a) == "as_sym_float"
                                                         for a in node.all_input_nodes)
        real = real or any(type(a) is float for a in node.args) or getattr(node.target, "__name__", "") == "sym_float"
        return "as_sym_float" if real else "as_sym_int"

    def number_value(self, name, value, kind) -> dict:
        if isinstance(value, Expr):
            return {"as_expr": {"expr_str": written(value, self.symbols), "hint": self.hint(value)}}
        if value is not None:
            return {kind.replace("sym_", ""): value}
        symbol = f"{'zuf' if kind == 'as_sym_float' else 'u'}{INVENTED + len(self.invented)}"
        self.invented.add(symbol)
        text = f"Symbol('{symbol}')" if kind == "as_sym_float" else f"Symbol('{symbol}', integer=True)"
        return {"as_expr": {"expr_str": text, "hint": None}}

    def size(self, value) -> dict:
        if not isinstance(value, Expr):
            return {"as_int": int(value)}
        return {"as_expr": {"expr_str": written(value, self.symbols), "hint": self.hint(value)}}

    def hint(self, e):
        """Return the value of an expression for the example."""
        from ..._src.core.nodes import evaluate
        if not e.free <= self.hints.keys():
            return None
        found = evaluate(e, self.hints)
        return {"as_bool": bool(found)} if e.dtype is not None else {"as_int": int(found)}

    # --- what calls take ----------------------------------------------------------------------------------------------
    def inputs(self, node) -> list:
        """The arguments of a call, by the names that the operator's schema has for them."""
        known = getattr(node.target, "schema", None)
        names = [a.name for a in known.arguments if not a.kwarg_only] if known is not None else []
        if node.target in SYMBOLIC.values():
            names = ["a", "b"]
        made = []
        for k, value in enumerate(node.args):
            kind = known.arguments[k].base if known is not None and k < len(known.arguments) else ""
            made.append({"name": names[k] if k < len(names) else "", "arg": self.value(value, kind),
                         "kind": POSITIONAL})
        for name, value in node.kwargs.items():
            kind = known.by_name[name].base if known is not None and name in known.by_name else ""
            made.append({"name": name, "arg": self.value(value, kind), "kind": KEYWORD})
        return made

    def value(self, value, kind="") -> dict:
        """An argument."""
        if isinstance(value, Node):
            return self.node_value(value)
        if value is None:
            return {"as_none": True}
        for types, name, convert in PLAIN:
            if isinstance(value, types):
                return {name: convert(value)}
        if isinstance(value, (list, tuple)):
            return self.items(list(value), kind)
        if isinstance(value, (OpOverload, Op)):
            return {"as_operator": name_of(value)}
        if isinstance(value, dict) and all(type(key) is str for key in value):
            return {"as_string_to_argument": {key: self.value(one) for key, one in value.items()}}
        raise SerializeError(f"an argument of type {type(value).__name__} cannot be saved: a file of a program has "
                             "tensors, numbers, text, dtypes, devices and lists of them")

    def node_value(self, node) -> dict:
        """A node as an argument."""
        if node.op == "get_attr":
            found = operator.attrgetter(node.target)(self.module)
            if not isinstance(found, GraphModule):
                raise SerializeError(f"the graph reads the attribute {node.target}, which is no input of it: a file "
                                     "has state as inputs")
            inner = GraphWriter(found, self.symbols, self.hints, not isinstance(found.graph.output_node().args[0],
                                                                                (tuple, list)), self.invented)
            return {"as_graph": {"name": node.target, "graph": inner.record()}}
        kind = self.kinds.get(node)
        if kind is None:
            raise SerializeError(f"{node.name} has several results, and is an argument")
        name = self.names.get(node, node.name)
        return {kind: {"name": name} if kind == "as_tensor" else {"as_name": name}}

    def items(self, values, kind) -> dict:
        """A list of arguments."""
        if not values:
            return {"as_tensors" if kind.startswith("Tensor") else "as_ints": []}
        records = [self.value(v) for v in values]
        kinds = {next(iter(r)) for r in records}
        parts = [next(iter(r.values())) for r in records]
        if len(kinds) == 1 and (only := next(iter(kinds))) in LISTS:
            return {LISTS[only]: parts}
        if kinds <= {"as_tensor", "as_none"}:
            return {"as_optional_tensors": records}
        for plain, symbolic in (("as_int", "as_sym_int"), ("as_float", "as_sym_float"), ("as_bool", "as_sym_bool")):
            if kinds <= {plain, symbolic}:
                return {symbolic + "s": [{plain: p} if plain in r else p for r, p in zip(records, parts)]}
        if kinds <= {"as_float", "as_int"}:
            return {"as_floats": [float_text(float(v)) for v in values]}
        return {"as_list": records}  # of this package alone


LISTS = {"as_tensor": "as_tensors", "as_int": "as_ints", "as_float": "as_floats", "as_string": "as_strings",
         "as_bool": "as_bools", "as_sym_int": "as_sym_ints", "as_sym_float": "as_sym_floats",
         "as_sym_bool": "as_sym_bools", "as_tensors": "as_nested_tensors", "as_ints": "as_int_lists",
         "as_floats": "as_float_lists"}
PLAIN = ((bool, "as_bool", bool), (int, "as_int", int), (float, "as_float", float_text), (str, "as_string", str),
         (complex, "as_complex", lambda v: {"real": float_text(v.real), "imag": float_text(v.imag)}),
         (Dtype, "as_scalar_type", number_of), (Device, "as_device", device_record),
         (layout, "as_layout", lambda v: key_in(LAYOUTS, v)),
         (memory_format, "as_memory_format", lambda v: key_in(FORMATS, v)))


def gives_nothing(target) -> bool:
    """Whether a call has no result."""
    schema = getattr(target, "schema", None)
    return schema is not None and schema.result.strip() == "()"


def metadata(node) -> dict:
    """Return the source metadata of a node as strings."""
    made = {}
    if node.meta.get("stack_trace"):
        made["stack_trace"] = node.meta["stack_trace"]
    if node.meta.get("nn_module_stack"):
        made["nn_module_stack"] = ";".join(f"{key},{path},{kind}" for key, (path, kind)
                                           in node.meta["nn_module_stack"].items())
    sources = [f"{name},{path}" for name, target in node.meta.get("source_fn_stack", ())
               if (path := source_name(target)) is not None]
    if sources:
        made["source_fn_stack"] = ";".join(sources)
    if node.meta.get("custom"):
        made["custom"] = json.dumps(node.meta["custom"])
    return made


def source_name(target) -> str | None:
    """The name of a layer or an operator that nodes come from."""
    if isinstance(target, Op) and OPS.get(target.name) is target:
        return f"rushlight.ops.{target.name}"
    if isinstance(target, type):
        return ".".join(name_in_files(target) or (target.__module__, target.__qualname__))
    return None


def signature_record(signature, writer) -> dict:
    """Return the record of a program's graph signature."""
    return {"input_specs": [input_record(s, writer) for s in signature.input_specs],
            "output_specs": [output_record(s, writer) for s in signature.output_specs]}


def argument_record(arg, writer) -> dict:
    if isinstance(arg, TensorArgument):
        return {"as_tensor": {"name": arg.name}}
    if type(arg) in ARGUMENTS:
        return {ARGUMENTS[type(arg)]: {"as_name": arg.name}}
    if isinstance(arg, ConstantArgument):
        return writer.value(arg.value)
    raise SerializeError(f"an input or output that is a {type(arg).__name__} cannot be saved")


def input_record(spec, writer) -> dict:
    named = {"arg": {"name": spec.arg.name}}
    if isinstance(spec.arg, CustomObjArgument):
        raise SerializeError(f"the program has the object {spec.arg.name}, which cannot be saved")
    if spec.kind is InputKind.PARAMETER:
        return {"parameter": {**named, "parameter_name": spec.target}}
    if spec.kind is InputKind.BUFFER:
        return {"buffer": {**named, "buffer_name": spec.target, "persistent": spec.persistent is not False}}
    if spec.kind is InputKind.CONSTANT_TENSOR:
        return {"tensor_constant": {**named, "tensor_constant_name": spec.target}}
    if spec.kind is not InputKind.USER_INPUT:
        raise SerializeError(f"an input of the kind {spec.kind.name} cannot be saved")
    if isinstance(spec.arg, ConstantArgument):
        return {"constant_input": {"name": spec.arg.name, "value": writer.value(spec.arg.value)}}
    return {"user_input": {"arg": argument_record(spec.arg, writer)}}


OUTPUTS = {OutputKind.BUFFER_MUTATION: ("buffer_mutation", "buffer_name"),
           OutputKind.PARAMETER_MUTATION: ("parameter_mutation", "parameter_name"),
           OutputKind.USER_INPUT_MUTATION: ("user_input_mutation", "user_input_name"),
           OutputKind.GRADIENT_TO_PARAMETER: ("gradient_to_parameter", "parameter_name"),
           OutputKind.GRADIENT_TO_USER_INPUT: ("gradient_to_user_input", "user_input_name")}


def output_record(spec, writer) -> dict:
    if spec.kind is OutputKind.USER_OUTPUT:
        return {"user_output": {"arg": argument_record(spec.arg, writer)}}
    if spec.kind is OutputKind.LOSS_OUTPUT:
        return {"loss_output": {"arg": {"name": spec.arg.name}}}
    if spec.kind not in OUTPUTS:
        raise SerializeError(f"an output of the kind {spec.kind.name} cannot be saved")
    kind, field = OUTPUTS[spec.kind]
    return {kind: {"arg": {"name": spec.arg.name}, field: spec.target}}
