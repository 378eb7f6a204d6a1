"""Matmuls and convolutions as launches of one template: its parameters, and the arguments of a launch.

A device's own half chooses the tile of a result, and writes its modules.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from ...compiler.launch import CONSTANT, Launch
from ...core import dtypes
from ...core.expr import Expr
from ...core.kinds import P
from ..cpu.claims.contractions import CONTRACTIONS, windows_fit

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
FLOATS, WHOLE = frozenset(("float32", "float64", "bfloat16", "float16")), (P.int_matmul, P.int_conv)
MOST_DIMENSIONS = 5  # of images
SIZES = ("rows", "columns", "depth")
DIMENSIONS = "012"  # of images: fewer are made up with 1
IMAGE_NAMES = (*SIZES, "ins", "outs", "border", *(f"{name}{d}" for name in ("xn", "yn", "kn", "step", "pad", "far")
                                                  for d in DIMENSIONS),
               *(f"{name}{d}" for name in ("xs", "ys") for d in ("n", "c", *DIMENSIONS)),
               *(f"ws{d}" for d in ("o", "c", *DIMENSIONS)))


def matrix_names(left: int, right: int) -> tuple:
    """Return the names of a matmul's numbers, for operands that read ``left`` and ``right`` matrices."""
    return (*SIZES, "n0", "n1", "n2", *(f"{side}{part}_{dim}" for side, count in (("a", left), ("b", right))
                                        for part in range(count) for dim in ("0", "1", "2", "r", "k")))


class Epilogue(NamedTuple):
    """The computation between accumulator and result: ``value`` over the leaf ``sums`` and those of ``operands``
    (Operand); None as ``value``: the sums.  ``out``: dtype of the result; ``further``: other results (Stored)."""

    value: Expr | None = None
    operands: tuple = ()
    out: object = None
    further: tuple = ()
    sums: Expr | None = None


class Prologue(NamedTuple):
    """The computation of an operand: ``value`` over ``leaves``, the values that are read."""

    value: Expr
    leaves: tuple


@dataclass(frozen=True)
class CompiledKernel:
    """A launch of a module.  Its arguments: ``operands``, in the order of its buffers; ``numbers``, some of which are
    names of operands; the error flag, if it has one."""

    kernel: int
    extent: int
    operands: tuple
    numbers: tuple
    flag: bool = False
    fills = ""

    def launch(self, place) -> Launch:
        slots = [place(name, 0) for name in self.operands]
        slots += [place(number, 0) if isinstance(number, str) else (CONSTANT, number) for number in self.numbers]
        slots += [place("flag", 0)] if self.flag else []
        return Launch(self.kernel, self.extent, 1, tuple(slots))


@dataclass(frozen=True)
class Contraction:
    """The plan of a claim: launches, and the sizes of their temporaries."""

    steps: tuple
    temporaries: dict = field(default_factory=dict)
    keep: tuple = ()


def named(name: str):
    return getattr(dtypes, name)


class Products:
    """Plans.  A device's own has ``tile(left, rows, columns)``, what it computes at a time of a result; ``units(tile,
    rows, columns)``, how many of these there are; ``written(shape, left, right, epilogue, tile)``, the number of a
    module, whose shape is "matrices" or "images" with what they are made of."""

    def __init__(self):
        self.module = functools.lru_cache(maxsize=None)(self.written)

    def plan(self, shape, left, right, epilogue, operands, sizes, batch, numbers, spans) -> Contraction:
        """One launch over the tiles of a result of ``sizes``: rows, columns, depth.  ``spans()``: the elements that
        each operand of the problem reaches over."""
        tile = self.tile(left, *sizes[:2])
        beside = *(o.name for o in epilogue.operands), *(s.name for s in epilogue.further)
        units = batch * self.units(tile, *sizes[:2])
        kernel = self.module(shape, left, right, epilogue, tile)
        return Contraction((CompiledKernel(kernel, units, (*operands, *beside), (*sizes, *numbers)),))

    def plan_matmul(self, p, epilogue=None, a_from=None, b_from=None) -> Contraction:
        """A product of strided matrices."""
        left, right = (given or own for given, own in zip((a_from, b_from), self.operands_of(p)))
        epilogue = completed(epilogue, p.out_dtype or p.dtype)
        batch, numbers, operands, reached = (*(1,) * (3 - len(p.batch)), *p.batch), [], [], {}
        shapes = {"a": (*batch, p.rows, p.depth), "b": (*batch, p.depth, p.columns)}
        for name, given, parts, own in (("a", a_from, p.a_parts, p.a), ("b", b_from, p.b_parts, p.b)):
            strides = [part[:-1] for part in parts] if given else [own]
            operands += [f"{name}{k}" for k in range(len(strides))] if given else [name]
            for one in strides:
                full = *(0,) * (3 - len(p.batch)), *one
                reached[operands[len(numbers) // len(full)]] = span(full, shapes[name])
                numbers += full
        counts = (len(a_from.leaves) if a_from else 1), (len(b_from.leaves) if b_from else 1)
        return self.plan(("matrices", *counts), left, right, epilogue, (*operands, "c"), (p.rows, p.columns, p.depth),
                         prod(batch), (*batch, *numbers), lambda: {**reached, "c": prod(batch) * p.rows * p.columns})

    def operands_of(self, p) -> tuple:
        """Return the dtypes of a matmul's operands without prologues."""
        return named(p.dtype), named(p.b_dtype or p.dtype)

    def plan_forward(self, c, epilogue=None) -> Contraction:
        """y from x and the weights."""
        return self.image("forward", c, epilogue, ("weight", "x", "y"))

    def plan_input(self, c, epilogue=None) -> Contraction:
        """x from y and the weights."""
        return self.image("input", c, epilogue, ("weight", "y", "x"))

    def plan_weight(self, c) -> Contraction:
        """The weights from y and x."""
        return self.image("weight", c, None, ("y", "x", "weight"))

    def image(self, direction, c, epilogue, operands) -> Contraction:
        ins, outs = c.in_channels // c.groups, c.out_channels // c.groups
        taps, xs, ys = prod(c.kernel), c.batch * prod(c.size), c.batch * prod(c.out)
        sizes = {"forward": (outs, ys, ins * taps), "input": (ins, xs, outs * taps), "weight": (outs, ins * taps, ys)}
        image, weight = named(c.dtype), named(c.b_dtype or c.dtype)
        left, right = (image, image) if direction == "weight" else (weight, image)
        found = completed(epilogue, c.out_dtype or c.dtype)

        def spans() -> dict:
            shapes = {"x": (c.batch, c.in_channels, *c.size), "y": (c.batch, c.out_channels, *c.out),
                      "weight": (c.out_channels, ins, *c.kernel)}
            strides = {"x": c.x, "y": c.y, "weight": c.w}
            return {name: span(strides[name] or row_major(shape), shape) for name, shape in shapes.items()}

        return self.plan(("images", direction, bool(c.border)), left, right, found, operands, sizes[direction],
                         c.groups, image_numbers(c, ins, outs), spans)


def completed(epilogue, out: str) -> Epilogue:
    """An epilogue with the dtype of its result."""
    return Epilogue(out=named(out)) if epilogue is None else epilogue


def image_numbers(c, ins: int, outs: int) -> tuple:
    """The numbers of ``IMAGE_NAMES`` behind the sizes; missing dimensions are 1 long, in front."""
    missing = len(DIMENSIONS) - len(c.size)

    def three(values, fill):
        return *(fill,) * missing, *values

    def image(strides, shape):
        strides = strides or row_major(shape)
        return *strides[:2], *three(strides[2:], 0)

    weights = image(c.w, (c.out_channels, ins, *c.kernel))
    found = (ins, outs, c.border, *three(c.size, 1), *three(c.out, 1), *three(c.kernel, 1), *three(c.stride, 1),
             *three(c.pad, 0), *three(c.dilation, 1), *image(c.x, (c.batch, c.in_channels, *c.size)),
             *image(c.y, (c.batch, c.out_channels, *c.out)), *weights)
    assert len(found) == len(IMAGE_NAMES) - 3
    return found


def span(strides, shape) -> int:
    """How many elements strided memory reaches over.

    Example:
        >>> span((8, 1), (3, 4))
        20
    """
    return 1 + sum((size - 1) * stride for stride, size in zip(strides, shape))


def row_major(shape) -> tuple:
    return tuple(prod(shape[k + 1:]) for k in range(len(shape)))


def claims(templates: Products, along: bool, packings, suits=lambda dtypes: True) -> dict:
    """Return {primitive: Claim by templates}; operands are those of the CPU's claims.

    ``along``: whether epilogues and prologues are fused.  ``packings(node, number)``: how often a matmul reads each
    element of an operand.  ``suits``: whether the device computes in dtypes of these names.
    """
    return {op: claimed(op, getattr(templates, name), along, packings, suits) for op, name in PLANS.items()}


def claimed(op, plan, along, packings, suits):
    """Return the CPU's Claim of a primitive, planned by a template of the device."""
    own = CONTRACTIONS[op]

    def suiting(node) -> bool:
        dtypes = {n.dtype.name for n in (node, *node.used)}
        return ((dtypes <= FLOATS or op in WHOLE) and windows_fit(node) and len(node.shape) <= MOST_DIMENSIONS
                and suits(dtypes))

    def planned(assembler, node, targets, prologues):
        _, problem, operands = own.plan(assembler, node, targets, prologues)
        return plan, problem, operands

    return own._replace(suits=suiting, plan=planned, output=own.output if along else "",
                        computed=own.computed if along and op is P.matmul else 0,
                        packings=packings if op is P.matmul else None)
