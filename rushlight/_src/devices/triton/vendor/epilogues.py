"""Recognize epilogues of a matmul that a library can fuse, from their operators and constants."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from ....core.expr import Expr
from .dialects import AUX, BIAS, GELU, RELU

ROLES = {"column": (BIAS, "scale_a"), "row": ("scale_b",), "one": ("scale_a", "scale_b"), "element": ("add",)}
OF_IMAGES = {"column": (BIAS,), "row": (BIAS,), "element": ("add",)}  # of a channel each
SCALES = "scale_a", "scale_b"
MOST = 4  # operands of an epilogue that is looked at
TERMS = 8  # of a sum or a product that are looked at one by one
ROOT = 0.7978845608028654  # of 2 / pi
ROUNDED = "float64", "float32", "bfloat16", "float16"  # dtypes to which a library rounds as the template does


class Recognised(NamedTuple):
    """act(sums * scales + add + bias): ``parts`` of it, and the names of operands by role."""

    parts: tuple
    roles: dict


class Forms:
    """Numbers of expressions, equal if the expressions are: up to order and grouping of sums and products, and lossless
    conversions."""

    def __init__(self):
        self.numbers, self.rows, self.known = {}, [], {}

    def row(self, *row) -> int:
        """The number of an operator with its arguments' numbers."""
        if row not in self.numbers:
            self.numbers[row] = len(self.rows)
            self.rows.append(row)
        return self.numbers[row]

    def constant(self, value) -> int:
        return self.row("number", np.float32(value).item() if isinstance(value, float) else value)

    def joined(self, op: str, parts: list) -> int:
        """A sum ("add") or a product ("mul") of parts, into which parts of the same kind are taken apart."""
        terms = []
        for part in parts:
            inner = self.rows[part]
            terms += inner[1:] if inner[0] == op else [part]
        return terms[0] if len(terms) == 1 else self.row(op, *sorted(terms if len(terms) <= TERMS else parts))

    def of(self, e) -> int:
        """The number of an Expr."""
        if not isinstance(e, Expr):
            return self.constant(e)
        if e not in self.known:
            self.known[e] = self.found(e)
        return self.known[e]

    def found(self, e: Expr) -> int:
        if e.op == "scalar":
            return self.row("scalar", e.arg)
        if e.op == "number":
            return self.constant(e.arg)
        args = [self.of(one) for one in e.args]
        if e.op == "convert" and widens(e.args[0].dtype, e.dtype):
            return args[0]
        if e.op in ("add", "mul"):
            return self.joined(e.op, args)
        if e.op == "pow" and self.rows[args[1]][0] == "number" and self.rows[args[1]][1] == 3:
            return self.joined("mul", args[:1] * 3)
        return self.row(e.op, e.arg, str(e.dtype) if e.op == "convert" else "", *args)

    def applied(self, op: str, *args: int) -> int:
        return self.row(op, None, "", *args)

    def relu(self, x: int) -> set:
        """The ways to write ReLU that leave NaN as it is."""
        zero = self.constant(0.0)
        negative = [self.applied(*one) for one in (("lt", x, zero), ("le", x, zero), ("gt", zero, x), ("ge", zero, x))]
        return {*(self.applied("where", one, zero, x) for one in negative), self.applied("maximum", x, zero),
                self.applied("maximum", zero, x)}

    def gelu(self, x: int) -> set:
        """The ways to write GELU by a hyperbolic tangent, or by the sigmoid of twice as much."""
        inner = self.joined("add", [x, self.joined("mul", [self.constant(0.044715), x, x, x])])
        once, twice = (self.joined("mul", [self.constant(factor * ROOT), inner]) for factor in (1, 2))
        more = self.joined("add", [self.constant(1.0), self.applied("tanh", once)])
        return {self.joined("mul", [x, self.applied("sigmoid", twice)]),
                self.joined("mul", [self.constant(0.5), x, more])}

    def before(self, roles: dict) -> int:
        """sums * scales + add + bias."""
        given = {role: self.row("scalar", name) for role, name in roles.items()}
        scaled = self.joined("mul", [self.row("scalar", "sums"), *(given[s] for s in SCALES if s in given)])
        return self.joined("add", [scaled, *(given[role] for role in ("add", BIAS) if role in given)])


def widens(source, target) -> bool:
    """Whether a conversion of floats keeps all their numbers."""
    return (source is target or source.is_floating_point and target.is_floating_point
            and source.itemsize < target.itemsize)


def unrounded(value: Expr, out):
    """Return the value that is rounded to the dtype of the result; None if the result is not a rounding of a value of
    at least as many digits."""
    if value.dtype is not out:
        return None
    inner = value.args[0] if value.op == "convert" else value
    if inner.dtype is out:
        return inner
    return (inner if inner.dtype.name in ROUNDED and out.name in ROUNDED and inner.dtype.itemsize > out.itemsize
            else None)


def assignments(operands: tuple, known: dict):
    """Assignments of roles to operands, from the roles ``known`` for their broadcasting, each used at most once."""
    for roles in itertools.product(*(known.get(o.along, ()) for o in operands)):
        scales = {*SCALES} & {*roles}
        if len({*roles}) == len(roles) and len(scales) != 1:
            yield dict(zip(roles, (o.name for o in operands)))


def recognised(epilogue, known=ROLES) -> Recognised | None:
    """Return an epilogue in the library's terms; None if it has no such form.  ``known``: the roles that an operand may
    have, by its broadcasting (``along``)."""
    if epilogue.value is None:
        return Recognised((), {}) if not epilogue.further else None
    if len(epilogue.operands) > MOST or len(epilogue.further) > 1:
        return None
    value = unrounded(epilogue.value, epilogue.out)
    if value is None or epilogue.sums is None or epilogue.sums.dtype.itemsize < epilogue.out.itemsize:
        return None
    forms = Forms()
    wanted, further = forms.of(value), [forms.of(one.value) for one in epilogue.further]
    for roles in assignments(epilogue.operands, known):
        before, real = forms.before(roles), value.dtype.is_floating_point
        for act, ways in (((), {before}), ((RELU,), forms.relu(before)), ((GELU,), forms.gelu(before))):
            if wanted not in ways or act and not real or further and (act != (GELU,) or further != [before]):
                continue
            return Recognised((*act, *([BIAS] if BIAS in roles else []), *([AUX] if further else [])), roles)
    return None
