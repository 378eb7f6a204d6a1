"""Comparisons, logic, bits, and choices by a condition."""
from __future__ import annotations

import math

from ..core.advice import warn
from ..core.dtypes import BOOL, FLOATING, bool_, type_name, uint8
from ..core.kinds import P
from ..core.op import OPS, Scalar, op, sample
from ..core.runtime import has_value
from ..core.tensor import Tensor
from .elementwise import ONE, PAIR
from .promotion import check_number, needs, promoted, promoted_as_stored, result_dtype


def comparison(name, text):
    def body(input, other: Scalar):
        x, y = promoted_as_stored(input, other)
        if name not in ("eq", "ne") and result_dtype(x, y).is_complex:
            raise NotImplementedError(
                f"{name} is not implemented for {result_dtype(x, y)}: complex numbers have no order, compare abs() or "
                "real")
        return getattr(P, name)(x, y)
    body.__name__, body.__doc__ = name, f"Where input {text} other: a bool tensor."
    return op(body, samples=PAIR, operator=name, inplace_too=True)


eq, ne = comparison("eq", "=="), comparison("ne", "!=")
lt, le, gt, ge = comparison("lt", "<"), comparison("le", "<="), comparison("gt", ">"), comparison("ge", ">=")


def logical(name):
    def body(input, other):
        x, y = (v if not isinstance(v, Tensor) or v.dtype is bool_ else P.ne(v, 0) for v in (input, other))
        return getattr(P, name)(x, y)
    body.__name__, body.__doc__ = name, f"{name.split('_')[1]} of the truth of each element."
    return op(body, samples=PAIR[:3], inplace_too=True)


logical_and, logical_or, logical_xor = logical("logical_and"), logical("logical_or"), logical("logical_xor")


@op(samples=ONE, inplace_too=True)
def logical_not(input):
    """True for zeros."""
    return P.logical_not(input) if input.dtype is bool_ else P.eq(input, 0)


def bitwise(name, logic, operator):
    def body(input, other: Scalar):
        x, y = promoted(input, other)
        dtype = result_dtype(x, y)
        if dtype.is_inexact:
            raise RuntimeError(f"{name} is not implemented for {dtype}: it wants integers or bools")
        return getattr(P, logic if dtype is bool_ else name)(x, y)
    body.__name__, body.__doc__ = name, f"{name.split('_')[1]} of the bits of each pair of elements."
    return op(body, operator=operator, inplace_too=True, number_first=True)


bitwise_and, bitwise_or = bitwise("bitwise_and", "logical_and", "and"), bitwise("bitwise_or", "logical_or", "or")
bitwise_xor = bitwise("bitwise_xor", "logical_xor", "xor")


@op(inplace_too=True)
def bitwise_not(input):
    """Bitwise complement; logical negation of bools."""
    if input.dtype.is_inexact:
        raise RuntimeError(f"bitwise_not is not implemented for {input.dtype}: it wants integers or bools")
    return P.logical_not(input) if input.dtype is bool_ else P.bitwise_not(input)


def shift(name, operator):
    def body(input, other: Scalar):
        x, y = promoted(input, other)
        dtype = result_dtype(x, y)
        if dtype.is_inexact:
            raise NotImplementedError(f"{name} is not implemented for {dtype}: it wants integers")
        move, most = getattr(P, name.replace("bitwise_", "")), 8 * dtype.itemsize - 1
        signs = name == "bitwise_right_shift" and dtype.is_signed  # the value after all bits are shifted out
        if has_value(y):
            return move(x, y) if 0 <= y <= most else move(x, most) if signs else P.mul(x, 0)
        inside = OPS["logical_and"](OPS["ge"](y, 0), OPS["le"](y, most))
        moved = move(x, P.where(inside, y, most if signs else 0))
        return moved if signs else P.where(inside, moved, 0)
    body.__name__, body.__doc__ = (
        name, f"Bits moved {name.split('_')[1]} by other: all of them, where that is negative or at least as many as "
              "there are.")
    return op(body, operator=operator, inplace_too=True, number_first=True)


bitwise_left_shift, bitwise_right_shift = shift("bitwise_left_shift", "lshift"), shift("bitwise_right_shift", "rshift")


@op(samples=ONE)
def isnan(input):
    """True for NaN."""
    return P.ne(input, input)


@op(samples=ONE)
def isinf(input):
    """True for infinite elements."""
    if input.dtype.is_complex:
        return P.logical_or(P.eq(P.abs(P.real(input)), math.inf), P.eq(P.abs(P.imag(input)), math.inf))
    return P.eq(P.abs(input), math.inf) if input.dtype.is_floating_point else P.ne(input, input)


@op(samples=ONE)
def isfinite(input):
    """True for finite elements."""
    if input.dtype.is_complex:
        input = P.add(P.mul(P.real(input), 0), P.mul(P.imag(input), 0))
        return P.eq(input, input)
    return P.lt(P.abs(input), math.inf) if input.dtype.is_floating_point else P.eq(input, input)


@op(samples=ONE)
def isposinf(input):
    """True for +infinity."""
    needs(BOOL, "isposinf", input, FLOATING)
    return P.eq(input, math.inf) if input.dtype.is_floating_point else P.ne(input, input)


@op(samples=ONE)
def isneginf(input):
    """True for -infinity."""
    needs(BOOL, "isneginf", input, FLOATING)
    return P.eq(input, -math.inf) if input.dtype.is_floating_point else P.ne(input, input)


@op(samples=ONE)
def isreal(input):
    """True for elements with a zero imaginary part."""
    return P.eq(P.imag(input), 0) if input.dtype.is_complex else P.logical_or(P.eq(input, input), True)


def places(input=None, *rest):
    """Handler of ``where`` calls with a condition alone, else None."""
    return (lambda condition: OPS["nonzero"](condition, as_tuple=True)) if input is None and not rest else None


@op(name="where", number_first=True, otherwise=places)
def where_(condition, input=None, other=None):
    """input where condition holds, else other; without them, the indices where it holds: one vector for each dimension.

    TypeError for one of the two alone, RuntimeError for a condition that is neither bool nor uint8.
    """
    if input is None or other is None:
        raise TypeError("where(): expected (condition), or (condition, input, other)")
    if condition.dtype not in (bool_, uint8):
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{type_name(condition.dtype)}: compare it, as in condition != 0")
    x, y = promoted(input, other)
    for number in (input, other):
        if not result_dtype(x, y).is_half:  # into which PyTorch rounds, to infinity also
            check_number(number, result_dtype(x, y))
    if condition.dtype is uint8:
        warn("where received a uint8 condition tensor, which is deprecated: write condition.bool().")
    c = condition if condition.dtype is bool_ else P.ne(condition, 0)
    return P.where(c, x, y)


@op(samples=(sample((2, 3), (3,)),), inplace_too=True)
def heaviside(input, values):
    """0 for negative x, 1 for positive, ``values`` at 0."""
    needs(BOOL, "heaviside", input, FLOATING)
    if input.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return P.where(P.eq(input, 0), values, P.convert(P.gt(input, 0), dtype=input.dtype))
