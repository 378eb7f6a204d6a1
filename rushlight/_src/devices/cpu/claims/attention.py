"""Attention and its gradient by templates."""
from __future__ import annotations

import dataclasses

from ....core.kinds import P
from ....core.meta import Meta
from ....graph.graph import Node
from ....ops.flash import AttentionOperands, AttentionSpec
from ....compiler.places import FLAG, Place
from ....compiler.target import Claim
from ...shared.attention import Attention
from .contractions import has_rows, is_contiguous


def stream_place(assembler, node: Node) -> Place:
    """The Place of an RNG offset: an input, or one plus a constant."""
    if node.op is P.convert:
        return stream_place(assembler, node.args[0])
    if node.op is P.add:
        place = stream_place(assembler, node.args[0])
        return Place(place.value, place.meta, place.offset + node.args[1])
    if not node.is_scalar:
        raise AssertionError(f"{assembler.name}: {node.name}, an offset in the RNG stream, is in memory")
    return assembler.places[node]


def attention_problem(assembler, x: AttentionOperands, spec: AttentionSpec, out: Meta, **gradients):
    """The problem of attention over these nodes, and its operands."""
    operands = {name: assembler.operand(node, has_rows) for name, node in zip("qkv", x)}
    kind, mask_strides = "", (0, 0, 0, 1)
    if x.mask is not None:
        operands["mask"] = found = assembler.operand(x.mask, has_rows)
        kind, mask_strides = x.mask.dtype.name, tuple(found.meta.strides)
    operands.update((name, assembler.operand(node, is_contiguous))
                    for name, node in zip(("q_starts", "k_starts"), x.starts))
    if spec.drop:
        operands.update(seed=stream_place(assembler, x.seed), place=stream_place(assembler, x.place))
    (batch, heads, queries, size), (_, shared, keys, value_size) = x.q.shape, x.v.shape
    batch = x.starts[0].shape[0] - 1 if x.starts else batch
    strides = [tuple(operands[name].meta.strides) for name in "qkv"]
    mods = spec.mods
    if mods is not None:
        operands.update((name, assembler.operand(node, is_contiguous)) for name, node in zip(mods.names, x.captured))
        operands["flag"] = Place(FLAG, None)
    if x.blocks is not None:
        operands["blocks"] = found = assembler.operand(x.blocks, has_rows)
        spread = tuple(0 if size == 1 else stride for size, stride in zip(x.blocks.shape, found.meta.strides))
        gradients.update(blocks=spread[:3], block=mods.block)
    spec = dataclasses.replace(spec, mods=mods and mods.template)
    return Attention(batch, heads, heads // shared, queries, keys, size, value_size, *strides, tuple(out.strides),
                     x.q.dtype.name, spec, kind, mask_strides, **gradients), operands


def plan_attention(assembler, node: Node, targets, prologues):
    from ..templates import attention

    problem, operands = attention_problem(assembler, AttentionOperands(*node.args), AttentionSpec(**node.params),
                                          targets[0].meta)
    return attention.plan_attention, problem, {**operands, "out": targets[0], "lse": targets[1]}


def plan_attention_gradient(assembler, node: Node, targets, prologues):
    from ..templates import attention

    given = {name: assembler.operand(n, has_rows) for name, n in zip(("grad", "out", "lse"), node.args)}
    names = ("grad_q", "grad_k", "grad_v")
    strides = {name: tuple(place.meta.strides) for name, place in zip(("grad", *names), (given["grad"], *targets))}
    problem, operands = attention_problem(assembler, AttentionOperands(*node.args[3:]), AttentionSpec(**node.params),
                                          given["out"].meta, **strides)
    return attention.plan_attention_backward, problem, {**operands, **given, **dict(zip(names, targets))}


def by_tiles(node: Node) -> bool:
    """True if weights begin where a tile of dropout begins."""
    return not any(node.params["part"][2:])


ATTENTION = {P.attention: Claim(by_tiles, plan_attention, has_rows, heavy=True),
             P.attention_gradient: Claim(by_tiles, plan_attention_gradient, has_rows, heavy=True)}
