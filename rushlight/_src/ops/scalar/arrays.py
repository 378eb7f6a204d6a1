"""NumPy reference implementation of functions of scalars: their Exprs, evaluated on arrays."""
from __future__ import annotations

import functools
from typing import Callable, NamedTuple

import numpy as np

from ...core.dtypes import float64
from ...core.expr import Expr
from . import definition

PIECE = 1 << 14  # elements processed at a time, so that intermediate arrays are small


def split(a):
    """Split a double into a sum of two with half the bits (Veltkamp)."""
    c = 134217729.0 * a
    high = c - (c - a)
    return high, a - high


def fma(a, b, c, a_parts, b_parts):
    """a b + c rounded once, or nearly: the product and the sum with their rounding errors (Dekker 1971).

    ``a_parts``, ``b_parts``: what ``split`` gives for the factors.
    """
    p, (ah, al), (bh, bl) = a * b, a_parts, b_parts
    lost = ((ah * bh - p) + ah * bl + al * bh) + al * bl
    s = p + c
    t = s - p
    exact = s + ((p - (s - t)) + (c - t) + lost)
    return np.where(np.isfinite(exact), exact, s)


MEANING = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.abs,
    "fma": fma, "where": np.where, "rarely": np.where,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "isnan": np.isnan,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_not": np.logical_not,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "left_shift": np.left_shift, "right_shift": np.right_shift, "floor": np.floor, "round": np.rint, "trunc": np.trunc,
    "sqrt": np.sqrt, "copysign": np.copysign,
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "fmod": np.fmod}


class Step(NamedTuple):
    """``run(*operands)`` is the array of ``key``, an Expr, or (Expr,) for the parts that ``split`` gives; without
    ``run``, a loop.  No later step reads ``last``."""

    key: object
    run: Callable | None
    operands: tuple
    last: list


def in_order(root: Expr) -> list:
    """Subexpressions of an Expr outside loops, operands first."""
    found, seen, stack = [], set(), [(root, False)]
    while stack:
        e, ready = stack.pop()
        if ready:
            found.append(e)
        elif e not in seen:
            seen.add(e)
            stack.append((e, True))
            stack.extend((a, False) for a in operands_of(e))
    return found


def operands_of(e: Expr) -> tuple:
    """Return the operands evaluated before ``e``: of a loop its start alone."""
    return e.args[:1] if e.op == "repeat" else e.args


@functools.lru_cache(maxsize=1024)  # loops evaluate the same Exprs in each round
def steps(root: Expr, drops: bool) -> list:
    """Return the steps that evaluate an Expr; with ``drops``, each array is released after its last read."""
    found = {}
    for e in in_order(root):
        operands = operands_of(e)
        if e.op == "fma":  # a factor of several is split once
            for factor in e.args[:2]:
                found.setdefault((factor,), Step((factor,), split, (factor,), []))
            operands = (*e.args, *((factor,) for factor in e.args[:2]))
        found[e] = Step(e, function_of(e), operands, [])
    needed = {root}
    for step in reversed(found.values()) if drops else ():
        step.last.extend({*step.operands} - needed)
        needed.update(step.operands)
    return list(found.values())


def function_of(e: Expr):
    """The function from operands to the array of an Expr; None for a loop."""
    if e.op == "number":
        value = np.asarray(e.arg, e.dtype.numpy)
        return lambda: value
    if e.op in ("convert", "whole"):
        return lambda a: a.astype(e.dtype.numpy)
    if e.op == "bitcast":
        return lambda a: a.view(e.dtype.numpy)
    if e.op in MEANING:
        return lambda *operands: np.asarray(MEANING[e.op](*operands))
    return None if e.op == "repeat" else lambda *operands: called(e.op, operands)


def evaluate(root: Expr, values: dict):
    """Array of an Expr, given those of its leaves."""
    return compute(root, dict(values), "repeat" not in root.operations)


def compute(root: Expr, values: dict, drops=False):
    """Array of an Expr; adds those of its subexpressions to ``values``."""
    for key, run, operands, last in steps(root, drops):
        if key not in values:
            values[key] = repeated(key, values) if run is None else run(*[values[a] for a in operands])
            for a in last:
                del values[a]
    return values[root]


def repeated(e: Expr, values: dict):
    """Final array of a loop."""
    (at, state, count), found = e.arg, values[e.args[0]]
    for k in range(count):
        inner = {**values, at: np.asarray(float(k)), state: found}
        if not np.any(compute(e.args[2], inner)):
            break
        found = compute(e.args[1], inner)
    return found


def called(name: str, operands):
    """Array of an operation that has a formula."""
    root, leaves = formula(name, len(operands))
    return evaluate(root, dict(zip(leaves, operands)))


def leaf(k: int) -> Expr:
    return Expr("scalar", (), f"x{k}", float64)


@functools.lru_cache(maxsize=256)
def formula(name: str, count: int) -> tuple:
    """Expr of an operation and its leaves, which represent ``count`` operands."""
    leaves = [leaf(k) for k in range(count)]
    return definition(name)(*leaves), leaves


def meaning(name: str):
    """NumPy function on real arrays for an operation."""
    def run(*arrays):
        kind = np.result_type(*arrays)
        if kind.kind == "c":
            raise NotImplementedError(f"{name} is not implemented for complex numbers")
        given = np.broadcast_arrays(*arrays)
        flat = [np.ascontiguousarray(a, np.float64).reshape(-1) for a in given]
        root, leaves = formula(name, len(flat))
        out = np.empty(given[0].size, kind)
        with np.errstate(all="ignore"):
            for start in range(0, out.size, PIECE):
                out[start:start + PIECE] = evaluate(root, {x: a[start:start + PIECE] for x, a in zip(leaves, flat)})
        return out.reshape(given[0].shape)
    return run
