"""Graphs as bytes, and as text that is the same for programs that compute the same way."""
from __future__ import annotations

import enum
import hashlib

import numpy as np

from ..core.devices import device
from ..core.dtypes import BY_NAME, dtype
from ..core.encoding import Unsaveable, decode, encode, register
from ..core.expr import Expr
from ..core.meta import TURNED, Meta, Size
from ..core.naming import is_own
from ..core.native import Op
from ..core.op import OPS
from ..core.quantized import QUANTIZED, SCHEMES, quantized
from .graph import Graph, Node, Store

PLAIN = (int, float, complex, bool, str, bytes, type(None), dtype, device, slice)


def text_of(value, numbers=None) -> str:
    """A string that identifies a value: equal for equal values, in any process. Nodes are their ``numbers``.

    Raises Unsaveable for objects that only this process has, such as a user's functions.

    >>> text_of((1, 1.0, True))
    '(1,1.0,True,)'
    """
    kind = type(value)
    if kind is Meta:
        return f"<{tuple(value.shape)} {value.strides} {value.dtype.label} {value.device}{TURNED[value.turned]}>"
    if kind is Node and numbers is not None:
        return f"%{numbers[value]}"
    if kind in PLAIN:
        return repr(value)
    if isinstance(value, (tuple, list)) and not hasattr(kind, "_fields"):
        return f"{'[' if kind is list else '('}{''.join(text_of(v, numbers) + ',' for v in value)})"
    if kind is dict:
        return f"{{{''.join(f'{text_of(k)}:{text_of(v, numbers)},' for k, v in value.items())}}}"
    if isinstance(value, Op):
        return f"op {own(value).name}"
    if kind is Expr:
        return f"expr {value!r}"
    if kind is type and value.__module__ == "builtins":
        return value.__name__
    if isinstance(value, enum.Enum) and is_own(kind):
        return str(value)
    raise Unsaveable(f"{kind.__name__} has no text that other processes share")


def own(operator) -> Op:
    """The operator itself, if the package declares it.  Unsaveable for those that users wrote, or that a program
    made."""
    if OPS.get(operator.name) is not operator:
        raise Unsaveable(f"operator {operator.name} is not declared by the package")
    return operator


def fingerprint(graph: Graph, extra=(), known=own) -> str:
    """A digest that is equal for programs that differ only in names and source locations; ``extra``: further data to
    distinguish programs by.

    ``known`` raises Unsaveable for operators whose name does not identify them.
    """
    numbers = {node: k for k, node in enumerate([*graph.inputs, *graph.nodes])}
    lines = [text_of(extra)]
    lines += [f"{n.weak} {text_of(n.meta)} {n.name if n.weak else ''}" for n in graph.inputs]
    lines += [f"{known(n.op).name} {text_of(n.args, numbers)} {text_of(n.params, numbers)} {text_of(n.meta)} "
              f"{n.constant} {n.inside and fingerprint(n.inside)}"
              for n in graph.nodes]
    lines += [f"{numbers[o.node]} into {numbers[o.into]}" if isinstance(o, Store) else str(numbers[o])
              for o in graph.outputs]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


class Reference(int):
    """The number of a Node in saved arguments."""


def rows(graph: Graph) -> tuple:
    """Encode a graph without references from node to node, because pickling those would recurse through the entire
    program."""
    numbers = {node: Reference(k) for k, node in enumerate([*graph.inputs, *graph.nodes])}

    def refer(value):
        if isinstance(value, Node):
            return numbers[value]
        return tuple(map(refer, value)) if isinstance(value, tuple) else list(map(refer, value)) if type(
            value) is list else value

    inputs = [(n.name, n.meta, n.weak) for n in graph.inputs]
    nodes = [(n.name, own(n.op), refer(n.args), n.params, n.meta, n.inside and rows(n.inside), n.where, n.constant)
             for n in graph.nodes]
    outputs = [(numbers[o.node], numbers[o.into]) if isinstance(o, Store) else numbers[o] for o in graph.outputs]
    return inputs, nodes, outputs


def from_rows(saved: tuple) -> Graph:
    """The graph that ``rows`` took apart."""
    inputs, nodes, outputs = saved
    made = [Node(name, None, meta=meta, weak=weak) for name, meta, weak in inputs]
    count = len(made)

    def resolve(value):
        if type(value) is Reference:
            return made[value]
        return tuple(map(resolve, value)) if type(value) is tuple else list(map(resolve, value)) if type(
            value) is list else value

    for name, op, args, params, meta, inside, where, constant in nodes:
        made.append(Node(name, op, resolve(args), params, meta, inside and from_rows(inside), where, constant=constant))
    results = [Store(made[o[0]], made[o[1]]) if type(o) is tuple else made[o] for o in outputs]
    return Graph(made[:count], made[count:], results)


# --- values other than plain ones in programs -------------------------------------------------------------------------
def array_parts(array):
    """The dtype's name, the shape and the bytes of a NumPy array of numbers."""
    if array.dtype.kind not in "biufc" or array.dtype.names or not array.flags.c_contiguous:
        raise Unsaveable(f"an array of {array.dtype}")
    return array.dtype.str, array.shape, array.tobytes()


def array_of(name, shape, data):
    return np.frombuffer(data, np.dtype(name)).reshape(shape).copy()


def dtype_of(name, scheme=None):
    return BY_NAME[name] if scheme is None else quantized(QUANTIZED[name], SCHEMES[len(scheme)](*scheme))


register(Meta, b"M", lambda meta: (tuple(meta.shape), meta.strides, meta.dtype, meta.device, meta.turned), Meta)
register(Size, b"z", lambda size: (tuple(size),), Size)
register(Reference, b"R", lambda number: (int(number),), Reference)
register(dtype, b"D", lambda one: (one.name,) if one.scheme is None else (one.shown.name, tuple(one.scheme)), dtype_of)
register(device, b"@", lambda one: (one.type, one.index), device)
register(Op, b"O", lambda op: (own(op).name,), OPS.__getitem__)
register(np.ndarray, b"A", array_parts, array_of, shared=False)


def save(graph: Graph) -> bytes:
    """A graph as bytes. Raises Unsaveable if it holds objects that only this process has."""
    return encode(rows(graph))


def load(data: bytes) -> Graph:
    """The graph that ``save`` wrote.

    >>> from rushlight._src.core.dtypes import float32
    >>> x = Node("x", None, meta=Meta.of((2,), float32))
    >>> load(save(Graph([x], [], [x]))).inputs[0].meta
    float32[2]
    """
    return from_rows(decode(data))
