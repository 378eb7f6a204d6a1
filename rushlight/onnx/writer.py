"""Writer: a program of primitives, node by node, as a graph of ONNX."""

from __future__ import annotations

import importlib

import numpy as np

from .._src.core.dtypes import bfloat16, float32, int64
from .._src.core.expr import Expr
from .._src.core.nodes import LEAVES
from .._src.graph.graph import Node
from .errors import OnnxExporterError

ARITHMETIC = {
    "//": "Div",
    "%": "Mod",
    "max": "Max",
    "min": "Min",
    "floor_divide": "Div",
    "remainder": "Mod",
    "maximum": "Max",
    "minimum": "Min",
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "neg": "Neg",
    "<": "Less",
    "==": "Equal",
    "logical_not": "Not",
    "logical_and": "And",
    "logical_or": "Or",
}  # sizes are not negative, so that a quotient rounds down either way
IGNORED = frozenset(("position", "value", "convert"))  # what bounds or casts a size


def library(name="onnx"):
    """A module of a package that an extra brings.  OnnxExporterError where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise OnnxExporterError(f"this needs the package {error.name}: pip install 'rushlight[onnx]'") from error


def element_type(dtype) -> int:
    """ONNX's number for a dtype.

    >>> import rushlight as torch
    >>> element_type(torch.float32)  # doctest: +SKIP
    1
    """
    names = {"bool": "BOOL", "float32": "FLOAT", "float64": "DOUBLE"}
    return library().TensorProto.DataType.Value(names.get(dtype.name, dtype.name.upper()))


class Writer:
    """Nodes, initializers and names of one ONNX graph.  Values are names; a size is an int64 tensor of one element."""

    def __init__(self, rules, opset):
        self.opset = opset
        self.rules, self.nodes, self.initializers = rules, [], []
        self.names: dict = {}  # Node -> name, or a tuple of names
        self.sizes: dict = {}  # Expr, or a symbol's name -> name
        self.constants: dict = {}  # (dtype, shape, bytes) -> name
        self.count = 0

    # --- names and values ---------------------------------------------------------------------------------------------
    def fresh(self, stem="v") -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def emit(self, operator: str, *inputs, outputs=1, **attributes):
        """One ONNX operator; the name of its result, or a tuple of them.  OnnxExporterError if the opset lacks it."""
        if not library().defs.has(operator, self.opset, ""):
            raise OnnxExporterError(f"opset {self.opset} has no operator {operator}: export with a later opset_version")
        made = [self.fresh(operator.lower()) for _ in range(outputs)]
        self.nodes.append(
            library().helper.make_node(operator, list(inputs), made, name=f"n{self.count}", **attributes)
        )
        return made[0] if outputs == 1 else tuple(made)

    def subgraph(self, name: str, inputs, write):
        """A graph that an operator takes as an attribute, which reads names of this one, too.

        Args:
            inputs: (name, dtype, shape or None) of each input.
            write: emits its operators, and returns (name, dtype) of each result.
        """
        onnx, outside = library(), (self.nodes, dict(self.sizes))
        self.nodes = []
        try:
            results = write()
            nodes = self.nodes
        finally:
            self.nodes, self.sizes = outside  # a size that is computed inside is unknown outside
        described = [onnx.helper.make_tensor_value_info(name, element_type(dtype), shape)
                     for name, dtype, shape in (*inputs, *((name, dtype, None) for name, dtype in results))]
        return onnx.helper.make_graph(nodes, name, described[:len(inputs)], described[len(inputs):])

    def initializer(self, name: str, array: np.ndarray, dtype) -> str:
        """Names an array that the file holds; ``dtype`` says what its bits mean."""
        onnx = library()
        made = onnx.TensorProto()
        made.name, made.data_type = name, element_type(dtype)
        made.dims.extend(array.shape)
        made.raw_data = np.ascontiguousarray(array).tobytes()
        self.initializers.append(made)
        return name

    def constant(self, value, dtype=int64) -> str:
        """A constant of any shape; equal ones are one."""
        if dtype is bfloat16:
            return self.cast(self.constant(value, float32), dtype)
        array = np.asarray(value, dtype.numpy)
        key = dtype, array.shape, array.tobytes()
        if key not in self.constants:
            self.constants[key] = self.initializer(self.fresh("c"), array, dtype)
        return self.constants[key]

    def cast(self, name: str, dtype) -> str:
        return self.emit("Cast", name, to=element_type(dtype))

    def value(self, argument, dtype) -> str:
        """An argument of a primitive: a value, a number, or a number made of sizes, in this dtype."""
        if isinstance(argument, Node):
            return self.names[argument]
        if isinstance(argument, Expr):
            return self.cast(self.emit("Squeeze", self.size(argument), self.constant([0])), dtype)
        return self.constant(argument, dtype)

    # --- sizes --------------------------------------------------------------------------------------------------------
    def vector(self, sizes) -> str:
        """Sizes, positions or axes as one int64 vector."""
        if not any(isinstance(n, Expr) for n in sizes):
            return self.constant(np.asarray(tuple(sizes), np.int64))
        return self.emit("Concat", *map(self.size, sizes), axis=0)

    def size(self, e) -> str:
        """A size as an int64 vector of one element."""
        if not isinstance(e, Expr):
            return self.constant([e])
        key = e.arg[0] if e.op in LEAVES else e
        if key not in self.sizes:
            self.sizes[key] = self.computed(e)
        return self.sizes[key]

    def computed(self, e: Expr) -> str:
        if e.op in ("const", "number"):
            return self.constant([int(e.arg)])
        if e.op == "product":
            return self.folded("Mul", [self.size(a) for a in e.args])
        if e.op == "sum":
            coefficients, constant = e.arg
            parts = [
                self.size(a) if c == 1 else self.emit("Mul", self.size(a), self.constant([c]))
                for a, c in zip(e.args, coefficients)
            ]
            return self.folded("Add", parts + ([self.constant([constant])] if constant else []))
        if e.op in IGNORED:
            return self.size(e.args[0])
        if e.op not in ARITHMETIC:
            raise OnnxExporterError(f"a size is computed by {e.op!r}, which this export does not write: {e}")
        return self.emit(ARITHMETIC[e.op], *map(self.size, e.args))

    def folded(self, operator, names):
        found = names[0]
        for name in names[1:]:
            found = self.emit(operator, found, name)
        return found

    # --- nodes --------------------------------------------------------------------------------------------------------
    def write(self, node: Node):
        """Writes one primitive by its rule."""
        name = node.op.name.removeprefix("prims.")
        rule = self.rules.get(name)
        if rule is None:
            raise OnnxExporterError(
                f"ONNX has no operators for {name} here ({node.name}: {node.meta}). Leave that part out of the module."
            )
        self.names[node] = rule(self, node, *node.args, **node.params)
