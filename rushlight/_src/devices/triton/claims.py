"""Claims of Triton's templates: matmuls (float8 included), convolutions and attention, with the operands of the CPU's
claims."""

from __future__ import annotations

from dataclasses import replace

from ...core.kinds import P
from ...core.shape_env import guess
from ..cpu.claims.attention import ATTENTION
from ..cpu.claims.contractions import CONTRACTIONS
from ..shared.products import claims
from .templates.attention import Attentions
from .templates.products import Templates


def claimed(templates: Templates, attentions: Attentions) -> dict:
    """By the primitive: its Claim."""
    def packings(node, number: int) -> int:
        """Return how often a matmul reads each element of an operand."""
        rows, columns = map(guess, node.shape[-2:])
        tile = templates.tile(node.args[0].dtype, rows, columns)
        return -(-columns // tile.columns) if number == 0 else -(-rows // tile.rows)

    return (claims(templates, True, packings) | {P.byte_matmul: bytes_multiplied(templates.plan_matmul)}
            | attending(attentions))


def bytes_multiplied(plan):
    """Return the Claim of float8 matmuls, whose operands are given as uint8 encodings."""
    own = CONTRACTIONS[P.int_matmul]

    def planned(assembler, node, targets, prologues):
        _, problem, operands = own.plan(assembler, node, targets, prologues)
        params = node.params
        return plan, replace(problem, formats=(params["left"], params["right"], params["fast"])), operands

    return own._replace(suits=lambda node: bool(node.params["left"]) and 0 not in node.shape, plan=planned)


def attending(attentions: Attentions) -> dict:
    """Return the CPU's Claims of attention and its gradient, planned by templates for GPUs."""
    plans = {P.attention: (attentions.plan_forward, 0), P.attention_gradient: (attentions.plan_backward, 3)}
    return {op: attending_by(op, *plan, attentions) for op, plan in plans.items()}


def attending_by(op, plan, first: int, attentions: Attentions):
    """One of them; ``first``: the number of the argument with the queries."""
    own = ATTENTION[op]

    def suits(node) -> bool:
        q, _, v = node.args[first:first + 3]
        return own.suits(node) and attentions.refusal(q.dtype.name, guess(q.shape[-1]), guess(v.shape[-1])) is None

    def planned(assembler, node, targets, prologues):
        _, problem, operands = own.plan(assembler, node, targets, prologues)
        return plan, problem, operands

    return own._replace(suits=suits, plan=planned)
