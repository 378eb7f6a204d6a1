"""How many multiplications a contraction takes."""
from __future__ import annotations

from ..core.meta import product
from ..graph.graph import Node


def multiplications(node: Node):
    """The multiplications of one primitive, an int or Expr; 0 unless it is a contraction."""
    name, args = node.op.name.rpartition(".")[2], node.args
    if name in ("matmul", "int_matmul", "byte_matmul"):
        return product(node.shape) * args[0].shape[-1]
    if name in ("conv", "conv_last", "int_conv"):
        return product(node.shape) * product(args[1].shape[1:])
    if name in ("conv_input", "conv_last_input"):
        return product(args[0].shape) * product(args[1].shape[1:])
    if name == "conv_weight":
        return product(args[0].shape) * product(node.shape[1:])
    if name == "attention":
        return of_attention(*(a.shape for a in args[:3]), values=1, keys=1)
    if name == "attention_gradient":
        return of_attention(*(a.shape for a in args[3:6]), values=2, keys=3)
    return 0


def of_attention(q, k, v, values: int, keys: int):
    """Multiplications of an attention: of scores with ``values`` and ``keys`` matrices of these widths."""
    return product(q[:-1]) * k[-2] * (keys * q[-1] + values * v[-1])
