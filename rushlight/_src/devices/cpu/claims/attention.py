"""Attention and its gradient by templates."""
from __future__ import annotations

from ....core.kinds import P
from ....core.meta import Meta
from ....graph.graph import Node
from ....ops import flash  # noqa: F401 - declares the primitives named below
from ....compiler.places import FLAG, Place
from ....compiler.target import Claim
from .contractions import has_rows, is_contiguous


def stream_place(assembler, node: Node) -> Place:
    """The Place of a number of the stream: given, or so much further."""
    if node.op is P.convert:
        return stream_place(assembler, node.args[0])
    if node.op is P.add:
        place = stream_place(assembler, node.args[0])
        return Place(place.value, place.meta, place.offset + node.args[1])
    if not node.is_scalar:
        raise AssertionError(f"{assembler.name}: {node.name}, a place in the random stream, is in memory")
    return assembler.places[node]


def attention_problem(assembler, q, k, v, mask, blocks, captured, starts, seed, place, causal, scale, mods, drop,
                      longest, out: Meta, **gradients):
    """The problem of attention over these nodes, and its operands."""
    from ..templates.attention import Attention

    operands = {name: assembler.operand(node, has_rows) for name, node in (("q", q), ("k", k), ("v", v))}
    kind, mask_strides = "", (0, 0, 0, 1)
    if mask is not None:
        operands["mask"] = found = assembler.operand(mask, has_rows)
        kind, mask_strides = mask.dtype.name, tuple(found.meta.strides)
    operands.update((name, assembler.operand(node, is_contiguous))
                    for name, node in zip(("q_starts", "k_starts"), starts))
    if drop:
        operands.update(seed=stream_place(assembler, seed), place=stream_place(assembler, place))
    (batch, heads, queries, size), (_, shared, keys, value_size) = q.shape, v.shape
    batch = starts[0].shape[0] - 1 if starts else batch
    strides = [tuple(operands[name].meta.strides) for name in "qkv"]
    if mods is not None:
        operands.update((name, assembler.operand(node, is_contiguous)) for name, node in zip(mods.names, captured))
        operands["flag"] = Place(FLAG, None)
    if blocks is not None:
        operands["blocks"] = found = assembler.operand(blocks, has_rows)
        spread = tuple(0 if size == 1 else stride for size, stride in zip(blocks.shape, found.meta.strides))
        gradients.update(blocks=spread[:3], block=mods.block)
    return Attention(batch, heads, heads // shared, queries, keys, size, value_size, *strides, tuple(out.strides),
                     q.dtype.name, scale,
                     causal, kind, mask_strides, modification=mods and mods.template, drop=drop, longest=longest,
                     **gradients), operands


def plan_attention(assembler, node: Node, targets, prologues):
    from ..templates import attention

    problem, operands = attention_problem(assembler, *node.args, **node.params, out=targets[0].meta)
    return attention.plan_attention, problem, {**operands, "out": targets[0], "lse": targets[1]}


def plan_attention_gradient(assembler, node: Node, targets, prologues):
    from ..templates import attention

    given = {name: assembler.operand(n, has_rows) for name, n in zip(("grad", "out", "lse"), node.args)}
    names = ("grad_q", "grad_k", "grad_v")
    strides = {name: tuple(place.meta.strides) for name, place in zip(("grad", *names), (given["grad"], *targets))}
    problem, operands = attention_problem(assembler, *node.args[3:], **node.params, out=given["out"].meta, **strides)
    return attention.plan_attention_backward, problem, {**operands, **given, **dict(zip(names, targets))}


def always(node: Node) -> bool:
    return True


ATTENTION = {P.attention: Claim(always, plan_attention, has_rows, heavy=True),
             P.attention_gradient: Claim(always, plan_attention_gradient, has_rows, heavy=True)}
