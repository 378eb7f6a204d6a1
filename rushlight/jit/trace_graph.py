"""Graphs of traces as TorchScript shows them, for tools that count operations."""
from __future__ import annotations

import operator

from .._src.core.native import Tensor
from ..fx.node import Node as GraphNode

KINDS = {bool: "BoolType", int: "IntType", float: "FloatType", complex: "ComplexType", str: "StringType",
         type(None): "NoneType", list: "ListType", tuple: "ListType"}
CONVOLUTIONS = {f"{name}{n}d": name.endswith("transpose") for name in ("conv", "conv_transpose") for n in (1, 2, 3)}


class ValueType:
    """The type of a value: its kind, and what a tensor looks like."""

    def __init__(self, kind: str, example=None):
        self._kind, self.example = kind, example

    def kind(self) -> str:
        return self._kind

    def sizes(self) -> list | None:
        return None if self.example is None else list(self.example.shape)

    def strides(self) -> list | None:
        return None if self.example is None else list(self.example.stride())

    def dim(self) -> int | None:
        return None if self.example is None else self.example.dim()

    def dtype(self):
        return None if self.example is None else self.example.dtype

    def device(self):
        return None if self.example is None else self.example.device

    def __str__(self):
        return self._kind.removesuffix("Type") if self.example is None else (
            f"{self.example.dtype}({', '.join(map(str, self.example.shape))}, device={self.example.device})")


class TraceValue:
    """A value of a graph: an input, a result of a node, or a constant."""

    def __init__(self, name: str, node=None, kind="TensorType", example=None, constant=None):
        self.name, self._node, self.constant = name, node, constant
        self._type = ValueType(kind, example)

    def debugName(self) -> str:
        return self.name

    def type(self) -> ValueType:
        return self._type

    def node(self):
        return self._node

    def isCompleteTensor(self) -> bool:
        return self._type.example is not None

    def toIValue(self):
        """Return the value of a constant; None for others."""
        return self.constant

    def __repr__(self):
        return f"{self.name} defined in ({self._node})"


class TraceNode:
    """One call of an operator, a constant, or a list of values."""

    def __init__(self, kind: str, inputs: list, scope: str):
        self._kind, self._inputs, self._outputs, self.scope = kind, inputs, [], scope

    def kind(self) -> str:
        return self._kind

    def inputs(self):
        return iter(self._inputs)

    def outputs(self):
        return iter(self._outputs)

    def inputsSize(self) -> int:
        return len(self._inputs)

    def outputsSize(self) -> int:
        return len(self._outputs)

    def inputsAt(self, i: int) -> TraceValue:
        return self._inputs[i]

    def outputsAt(self, i: int) -> TraceValue:
        return self._outputs[i]

    def output(self) -> TraceValue:
        """Return the only result. RuntimeError if there are more or none."""
        if len(self._outputs) != 1:
            raise RuntimeError(f"{self._kind} has {len(self._outputs)} outputs: ask outputs() for them")
        return self._outputs[0]

    def scopeName(self) -> str:
        """Return the paths of the modules around the call, from the outermost, joined by slashes."""
        return self.scope

    def __str__(self):
        left = ", ".join(f"%{value.name} : {value.type()}" for value in self._outputs)
        shown = f"[value={self._outputs[0].constant!r}]" if self._kind == "prim::Constant" else ""
        return f"{left} = {self._kind}{shown}({', '.join('%' + value.name for value in self._inputs)})"


class TraceGraph:
    """The operators that a program called, in order."""

    def __init__(self, program):
        self._inputs, self._nodes, self._outputs = [], [], []
        self.values: dict = {}  # node of the captured graph -> its values
        self.count = 0
        nodes = list(program.graph.nodes)
        inputs = [node for node in nodes if node.op == "placeholder"]
        given = set(program.graph_signature.user_inputs)
        for node in sorted(inputs, key=lambda node: node.name not in given):  # arguments, then state
            self.values[node] = [self.value(example=node.meta.get("val"))]
            self._inputs += self.values[node]
        for node in nodes:
            if node.op == "call_function":
                self.add_call(node)
            elif node.op == "output":
                self._outputs = [self.operand(value, "") for value in node.args[0]]

    def inputs(self):
        return iter(self._inputs)

    def nodes(self):
        return iter(self._nodes)

    def outputs(self):
        return iter(self._outputs)

    def findAllNodes(self, kind: str) -> list:
        """Return the nodes of a kind."""
        return [node for node in self._nodes if node.kind() == kind]

    def value(self, node=None, **facts) -> TraceValue:
        name, self.count = str(self.count), self.count + 1
        if not isinstance(facts.get("example"), Tensor):
            facts["example"] = None
        return TraceValue(name, node, **facts)

    def add(self, kind: str, inputs: list, scope: str, facts: list) -> TraceNode:
        """Append a node, whose results are described by ``facts``."""
        node = TraceNode(kind, inputs, scope)
        node._outputs = [self.value(node, **each) for each in facts]
        self._nodes.append(node)
        return node

    def add_call(self, node):
        """Append the call of an operator; taking one of its results is no node."""
        if node.target is operator.getitem:
            self.values[node] = [self.values[node.args[0]][node.args[1]]]
            return
        stack = (node.meta.get("nn_module_stack") or {}).values()
        scope = "/".join(path.partition("@")[0] for path, _ in stack)  # "@" counts the calls of a module
        kind, arguments = as_traced(node)
        inputs = [self.operand(value, scope) for value in arguments]
        found = node.meta.get("val")
        examples = found if isinstance(found, (list, tuple)) else [found]
        self.values[node] = self.add(kind, inputs, scope, [{"example": each} for each in examples])._outputs

    def operand(self, value, scope: str) -> TraceValue:
        """Return the value of an argument; constants and lists become nodes."""
        if isinstance(value, GraphNode):
            return self.values[value][0]
        if isinstance(value, (list, tuple)):
            parts = [self.operand(each, scope) for each in value]
            return self.add("prim::ListConstruct", parts, scope, [{"kind": "ListType"}]).output()
        return self.add("prim::Constant", [], scope,
                        [{"kind": KINDS.get(type(value), "AnyType"), "constant": value}]).output()

    def __str__(self):
        inputs = ",\n      ".join(f"%{value.name} : {value.type()}" for value in self._inputs)
        lines = "".join(f"  {node}\n" for node in self._nodes)
        return f"graph({inputs}):\n{lines}  return ({', '.join('%' + value.name for value in self._outputs)})\n"


def as_traced(node) -> tuple[str, list]:
    """Return the kind of a call and all its arguments, in the order of the schema. Traces of PyTorch hold convolutions
    as calls of the one operator that has all of them."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return f"prim::{getattr(node.target, '__name__', node.target)}", [*node.args, *node.kwargs.values()]
    given = dict(zip((each.name for each in schema.arguments), node.args)) | dict(node.kwargs)
    values = {each.name: given.get(each.name, each.default_value) for each in schema.arguments}
    name = schema.name.partition("::")[2]
    if name in CONVOLUTIONS and not isinstance(values["padding"], str):
        count = int(name[-2])
        lists = [spread(values.get(key, 0), count) for key in ("stride", "padding", "dilation", "output_padding")]
        return "aten::_convolution", [values["input"], values["weight"], values["bias"], *lists[:3],
                                      CONVOLUTIONS[name], lists[3], values["groups"], False, False, True, True]
    return schema.name, list(values.values())


def spread(value, count: int) -> list:
    """Return a size for each dimension of one that is given for all."""
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return value * count if len(value) == 1 else value
