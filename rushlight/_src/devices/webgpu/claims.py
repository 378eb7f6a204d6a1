"""Which primitives templates of WGSL compute: products and convolutions, with operands as those of the processor's."""

from __future__ import annotations

from ...core.shape_env import guess
from ...core.kinds import P
from ..cpu.claims.contractions import CONTRACTIONS
from .templates.plans import Templates
from .templates.tiled import tile_for

PLANS = {
    P.matmul: "plan_matmul",
    P.int_matmul: "plan_matmul",
    P.conv: "plan_forward",
    P.conv_last: "plan_forward",
    P.int_conv: "plan_forward",
    P.conv_input: "plan_input",
    P.conv_last_input: "plan_input",
    P.conv_weight: "plan_weight",
}
MOST_DIMENSIONS = 5  # of images
MOST_BUFFERS = 32  # of a product with all that it may read and write along


def packings(node, number: int) -> int:
    """How often a product reads each element of an operand into workgroup memory."""
    rows, columns = map(guess, node.shape[-2:])
    size = tile_for(rows, columns).size
    return -(-(columns if number == 0 else rows) // size)


def claims(features: frozenset, bindings: int) -> dict:
    """By the primitive: its Claim on a device of these features, whose shaders have so many buffers."""
    templates = Templates(features)
    return {op: claimed(op, getattr(templates, name), features, bindings) for op, name in PLANS.items()}


def claimed(op, plan, features, bindings):
    """The processor's Claim of a primitive, planned by a template of ours."""
    own, along = CONTRACTIONS[op], bindings >= MOST_BUFFERS

    def suits(node) -> bool:
        dtypes = {n.dtype.name for n in (node, *node.used)}
        return own.suits(node) and len(node.shape) <= MOST_DIMENSIONS and (
            "float64" not in dtypes or "f64" in features)

    def planned(assembler, node, targets, prologues):
        _, problem, operands = own.plan(assembler, node, targets, prologues)
        return plan, problem, operands

    return own._replace(suits=suits, plan=planned, output=own.output if along else "",
                        computed=own.computed if along and op is P.matmul else 0,
                        packings=packings if op is P.matmul else None)
