"""Layers between dequantize and quantize, as integer matmuls.

    x = dequantize_per_tensor(q, ..)               sums = int_matmul(q, weights)
    y = linear(x, dequantize_per_channel(w, ..))   y = (sums + shift) * multiplier + bias

A program that was quantized after its export computes its layers in floats.  Once parameters are known
(``freezing.py``), such a layer is an integer matmul, exact in int32; shift, multiplier and packed weights follow from
parameters alone.
"""
from __future__ import annotations

from ..core.dtypes import dtype, float32, int8, uint8
from ..core.native import Tensor
from ..core.op import OPS
from ..graph.graph import Graph, Node, nodes_in
from ..ops.conv import spread

TENSOR, CHANNEL = "quantized_decomposed.dequantize_per_tensor", "quantized_decomposed.dequantize_per_channel"
LINEAR, PRODUCTS = "nn.functional.linear", ("matmul", "bmm", "mm")
CONVOLUTIONS = {f"nn.functional.conv{rank}d": rank for rank in (1, 2, 3)}
PLACED = ("as_strided", "as_strided_scatter")
DEEPEST = 2 ** 16  # int8 multiplications whose sum fits int32


def dequantized(node):
    """Return (integers, scale, zero point) of a node that dequantizes with one scale: numbers, or nodes for both if
    they are computed at run time; else None."""
    if not isinstance(node, Node) or node.op is None or node.op.name != TENSOR or node.params.get("out_dtype"):
        return None
    whole, scale, zero = node.args[:3]
    if node.args[5] not in (uint8, int8):
        return None
    if isinstance(scale, Node) and isinstance(zero, Node):
        return whole, scale, zero
    if isinstance(scale, (Node, Tensor)) or isinstance(zero, (Node, Tensor)):
        return None
    return whole, float(scale), int(zero)


def weights(node, known):
    """Return (int8 weights, scales [n]) of a node that dequantizes a known weight with a scale per row; else None."""
    if not isinstance(node, Node) or node not in known or node.op is None or node.params.get("out_dtype"):
        return None
    if node.op.name not in (TENSOR, CHANNEL):
        return None
    values = [known[a] if isinstance(a, Node) else a for a in node.args]
    whole, scale, zero = values[:3]
    if values[-1] is not int8 or whole.dtype is not int8 or zero is not None and bool((zero != 0).any() if isinstance(
            zero, Tensor) else zero):
        return None
    if node.op.name == TENSOR:
        return None if isinstance(scale, Tensor) else (whole, OPS["full"]((whole.size(0),), scale, dtype=float32))
    return (whole, scale.to(float32)) if values[3] in (0, -whole.dim()) else None


class Layers:
    """Finder of such layers while a graph is frozen: ``known``, {node: tensor}, is extended.

    The results of convolutions are channels-last.  If a program accesses memory itself (``as_strided``, ``view`` as
    another dtype) or writes through views, they are not replaced.
    """

    def __init__(self, graph: Graph, known: dict):
        self.known = known
        self.placed = graph.changes(*graph.views) or any(
            n.op.name in PLACED or n.op is OPS["view"] and any(isinstance(a, dtype) for a in n.args)
            for n in graph.nodes)

    def whole(self, node: Node, now) -> Node | None:
        """Return a node that computes the same on integers, or None; ``now(node)``: the replacement of a node."""
        name = node.op.name if node.op is not None else ""
        if node.meta is None or getattr(node.meta, "dtype", None) is not float32:
            return None
        if name in PRODUCTS:
            return self.product(node, now)
        if name != LINEAR and (name not in CONVOLUTIONS or self.placed):
            return None
        found, weight = dequantized(node.args[0]), weights(node.args[1], self.known)
        if found is None or weight is None or weight[0].numel() // weight[0].size(0) > DEEPEST:
            return None
        if name == LINEAR:
            return self.linear(node, now, found, weight)
        return None if isinstance(found[1], Node) else self.convolution(node, now, found, weight)

    def finished(self, nodes, outputs):
        """Return the nodes without dequantizations that layers no longer read, and results with their recorded strides:
        those of convolutions are channels-last, which views may have to copy."""
        if any(n.op.name == "_decomposed_convolution" for n in nodes):
            laid = {n: Node(f"{n.name}_laid", OPS["contiguous"], (n,), None, n.meta) for n in dict.fromkeys(outputs)
                    if n.op is not None and getattr(n.meta, "contiguous", False)}
            for node in nodes:
                node.op = OPS["reshape"] if node.op is OPS["view"] else node.op
            nodes, outputs = [*nodes, *laid.values()], [laid.get(n, n) for n in outputs]
        used = {n for node in nodes for n in nodes_in((node.args, tuple(node.params.values())))} | set(outputs)
        return [n for n in nodes if n in used or n.op.name != TENSOR], outputs

    def value(self, tensor, name: str) -> Node:
        """Return a node with a known value."""
        made = Node(name, None, meta=tensor._rush_meta)
        self.known[made] = tensor
        return made

    def terms(self, node, total, scales, scale, zero):
        """Return (shift or None, multiplier) as nodes."""
        shift, multiplier = OPS["_decomposed_terms"](total, scales, zero, scale)
        return (self.value(shift, f"{node.name}_shift") if zero else None,
                self.value(multiplier, f"{node.name}_multiplier"))

    def linear(self, node, now, found, weight):
        (whole, scale, zero), (numbers, scales) = found, weight
        factor, total = OPS["_int8_operand"](numbers)
        given = node.op.signature.bind(*node.args, **node.params)
        given.apply_defaults()
        bias = given.args[2]
        if isinstance(scale, Node):
            args = (now(whole), self.value(factor.contiguous(), f"{node.name}_weight"),
                    self.value(total, f"{node.name}_sums"), self.value(scales, f"{node.name}_scales"), now(scale),
                    now(zero), bias if bias is None else now(bias))
            return Node(node.name, OPS["_decomposed_linear_dynamic"], args, None, node.meta)
        args = (now(whole), self.value(factor.contiguous(), f"{node.name}_weight"),
                *self.terms(node, total, scales, scale, zero), bias if bias is None else now(bias))
        return Node(node.name, OPS["_decomposed_linear"], args, None, node.meta)

    def convolution(self, node, now, found, weight):
        (whole, scale, zero), (numbers, scales) = found, weight
        rank = CONVOLUTIONS[node.op.name]
        given = node.op.signature.bind(*node.args, **node.params)
        given.apply_defaults()
        bias, stride, padding, dilation, groups = given.args[2:]
        if isinstance(padding, str) or len(node.meta.shape) != rank + 2:
            return None
        sizes = [tuple(spread(v, rank, "size")) for v in (stride, padding, dilation)]
        args = (now(whole), self.value(numbers, f"{node.name}_weight"),
                *self.terms(node, OPS["_weight_sums"](numbers), scales, scale, zero),
                bias if bias is None else now(bias), *sizes, groups, zero)
        return Node(node.name, OPS["_decomposed_convolution"], args, None, node.meta)

    def product(self, node, now):
        left, right = map(dequantized, node.args[:2])
        if left is None or right is None or len(node.args) > 2:
            return None
        (a, scale, zero), (b, other_scale, other_zero) = left, right
        if isinstance(scale, Node) or isinstance(other_scale, Node):
            return None
        same = len(a.meta.shape) == len(b.meta.shape) >= 2 and a.meta.shape[:-2] == b.meta.shape[:-2]
        if not same or b.meta.dtype is not int8 or not isinstance(a.meta.shape[-1], int) or a.meta.shape[-1] > DEEPEST:
            return None
        return Node(node.name, OPS["_decomposed_matmul"], (now(a), now(b), zero, other_zero, scale * other_scale), None,
                    node.meta)
