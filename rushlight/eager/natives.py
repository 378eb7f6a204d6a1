"""Library calls that native kernels compute: which they are, and what their templates are asked for.

``NATIVE[op].suits(node)`` tells whether there is a kernel for a call; ``NATIVE[op].plan(assembler, node, targets)`` gives what plans a problem, the problem,
and the operands by name.  Operands and results lie in rows.
"""
from __future__ import annotations

from ..core.kinds import P
from ..core.meta import product
from ..ops import sort  # noqa: F401 - declares the primitives named below


class Native:
    """A kind of call with a kernel."""

    def __init__(self, suits, plan):
        self.suits, self.plan = suits, plan


def in_rows(meta) -> bool:
    return meta.contiguous


def selects_along_rows(node) -> bool:
    """Whether elements are put in order along the last dimension, by a kernel."""
    from ..compiler.templates.select import DTYPES, MOST_PLACES

    x = node.args[0]
    sizes = (*x.shape, *node.meta[0].shape)
    return x.dtype.name in DTYPES and node.params["dim"] == len(x.shape) - 1 and all(0 < s < MOST_PLACES for s in sizes)


def plan_selection(assembler, node, targets):
    from ..compiler.templates.select import Selection, plan_selection

    x = assembler.operand(node.args[0], in_rows)
    rows, size = product(node.args[0].shape[:-1]), node.args[0].shape[-1]
    down = node.params["descending"] if node.op is P.sort else node.params["largest"]
    problem = Selection(rows, size, node.params.get("k", size), node.args[0].dtype.name, down)
    return plan_selection, problem, {"x": x, "values": targets[0], "places": targets[1]}


NATIVE = {P.sort: Native(selects_along_rows, plan_selection), P.topk: Native(selects_along_rows, plan_selection)}
