"""Claims of WGSL templates: matmuls, convolutions, attention, sorting and Fourier transforms, with the operands of the
CPU's claims."""

from __future__ import annotations

from ...core.kinds import P
from ...core.shape_env import guess
from ..cpu.claims.attention import ATTENTION
from ..cpu.claims.natives import LIBRARY
from ..shared.products import claims
from .templates.attention import Attentions
from .templates.fourier import Transforms
from .templates.sorting import Sortings
from .templates.tiled import Templates, tile_for

MOST_BUFFERS = 32  # of a product with all that it may read and write along


def packings(node, number: int) -> int:
    """Return how often a matmul reads each element of an operand into workgroup memory."""
    rows, columns = map(guess, node.shape[-2:])
    size = tile_for(rows, columns).size
    return -(-(columns if number == 0 else rows) // size)


def claimed(features: frozenset, bindings: int, attentions: Attentions) -> dict:
    """Return {primitive: Claim} for a device of these features, whose shaders have ``bindings`` buffers."""
    found = claims(Templates(features), bindings >= MOST_BUFFERS, packings,
                   lambda dtypes: "float64" not in dtypes or "f64" in features)
    plans = {P.attention: (attentions.plan_forward, 0), P.attention_gradient: (attentions.plan_backward, 3)}
    found |= {op: attending(op, *plan, attentions) for op, plan in plans.items()}
    sortings, transforms = Sortings(features), Transforms(features)
    found |= {op: in_rows(LIBRARY[op], sortings) for op in (P.sort, P.topk)}
    return found | {op: in_rows(LIBRARY[op], transforms) for op in (P.fft, P.rfft, P.irfft)}


def in_rows(own, planner):
    """Return the CPU's Claim of a call on rows, planned by templates, as ``planner`` decides."""
    def planned(assembler, node, targets, prologues):
        _, problem, operands = own.plan(assembler, node, targets, prologues)
        return planner.plan, problem, operands

    return own._replace(suits=lambda node: own.suits(node) and planner.suits(node), plan=planned)


def attending(op, plan, first: int, attentions: Attentions):
    """Return the CPU's Claim of attention, or of its gradient, planned by templates."""
    own = ATTENTION[op]

    def planned(assembler, node, targets, prologues):
        _, problem, operands = own.plan(assembler, node, targets, prologues)
        return plan, problem, operands

    return own._replace(suits=lambda node: own.suits(node) and attentions.suits(node, first), plan=planned)
