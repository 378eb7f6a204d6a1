"""Library calls that native kernels compute (linear algebra: linear.py), and the problems of their templates.

``NATIVE[op].suits(node)`` is true if there is a kernel for a call;
``NATIVE[op].plan(assembler, node, targets, prologues)`` returns the planner of a problem, the problem, and the operands
by name.  Operands and results are row-major.
"""
from __future__ import annotations

from ....core.kinds import P
from ....core.meta import product
from ....compiler.target import Claim
from . import linear


def in_rows(meta) -> bool:
    return meta.contiguous


def selects_along_rows(node) -> bool:
    """True if a kernel sorts elements along the last dimension."""
    from ..templates.select import DTYPES, MOST_PLACES

    x = node.args[0]
    sizes = (*x.shape, *node.meta[0].shape)
    return x.dtype.name in DTYPES and node.params["dim"] == len(x.shape) - 1 and all(0 < s < MOST_PLACES for s in sizes)


def plan_selection(assembler, node, targets, prologues):
    from ..templates.select import Selection, plan_selection

    x = assembler.operand(node.args[0], in_rows)
    rows, size = product(node.args[0].shape[:-1]), node.args[0].shape[-1]
    down = node.params["descending"] if node.op is P.sort else node.params["largest"]
    problem = Selection(rows, size, node.params.get("k", size), node.args[0].dtype.name, down)
    return plan_selection, problem, {"x": x, "values": targets[0], "places": targets[1]}


def transforms(node) -> bool:
    """True if a Fourier transform is along one dimension and not empty."""
    x = node.args[0]
    return x.dtype.name in ("float32", "float64", "complex64",
                            "complex128") and len(node.params.get("dims", (0,))) == 1 and 0 not in (
                                *x.shape, *node.shape)


def plan_transform(assembler, node, targets, prologues):
    from ..templates.fourier import COMPLEX, HALF, REAL, Fourier, plan_fourier

    x = node.args[0]
    dim = node.params["dims"][0] if node.op is P.fft else node.params["dim"]
    given, made, inverse = {P.fft: (COMPLEX, COMPLEX, node.params.get("inverse")), P.rfft: (REAL, HALF, False),
                            P.irfft: (HALF, REAL, True)}[node.op]
    size = node.params["size"] if node.op is P.irfft else x.shape[dim]
    problem = Fourier(product(x.shape[:dim]), size, product(x.shape[dim + 1:]), x.dtype.to_real().name, given, made,
                      inverse)
    return plan_fourier, problem, {"x": assembler.operand(x, in_rows), "y": targets[0]}


def streams_nibbles(node) -> bool:
    """True if a matmul by int4 weights has rows, columns and groups."""
    return all(0 not in n.shape for n in node.used)


def plan_nibbles(assembler, node, targets, prologues):
    from ..templates.nibbles import Nibbles, plan_nibbles

    x, weight, scales = node.args
    depth = x.shape[1]
    problem = Nibbles(x.shape[0], weight.shape[0], depth, depth // scales.shape[0], scales.dtype.name)
    operands = {name: assembler.operand(n, in_rows) for name, n in zip(("x", "weight", "scales"), node.args)}
    return plan_nibbles, problem, {**operands, "out": targets[0]}


def native(suits, plan) -> Claim:
    """A call with a kernel whose results are row-major."""
    return Claim(suits, plan, in_rows)


TRANSFORM = native(transforms, plan_transform)
LIBRARY = {P.fft: TRANSFORM, P.rfft: TRANSFORM, P.irfft: TRANSFORM,
          **dict.fromkeys((P.sort, P.topk), native(selects_along_rows, plan_selection)),
          **dict.fromkeys((P.eigh, P.eigvalsh), native(linear.turns, linear.plan_eigenvalues)),
          **dict.fromkeys((P.svd, P.svdvals), native(linear.rotates, linear.plan_singular_values)),
          P.nibble_matmul: native(streams_nibbles, plan_nibbles),
          P.row_order: native(linear.has_exchanges, linear.plan_row_order),
          **{op: native(suits, plan) for op, (suits, plan) in linear.PLANS.items()}}
