"""Bounds of unbacked symbols, from the checks of a program."""
from __future__ import annotations

import collections

from .._ops import ops
from .._src.core.expr import Expr, terms
from .._src.core.native import Tensor
from .._src.core.nodes import INFINITY


class Range(collections.namedtuple("Range", "lower upper")):
    """The bounds of a number: the least and greatest value, None for none.

    >>> Range(2, None)
    VR[2, int_oo]
    """

    __slots__ = ()

    def __repr__(self):
        low, high = "-int_oo" if self.lower is None else self.lower, "int_oo" if self.upper is None else self.upper
        return f"VR[{low}, {high}]"


def unbacked_ranges(graph) -> dict:
    """Return {name of an unbacked symbol: Range}; None is no bound."""
    known: dict = {}
    for node in graph.nodes:
        for symbol in symbols_of(node.meta.get("val")):
            known.setdefault(symbol, (None if symbol.low == -INFINITY else symbol.low, None))
    for node in graph.find_nodes(op="call_function", target=ops.aten._assert_scalar.default):
        condition = getattr(node.args[0], "meta", {}).get("val")
        for e in nonnegative_parts(condition) if isinstance(condition, Expr) else ():
            bound(e, known)
    return {symbol.arg[0]: Range(*bounds) for symbol, bounds in known.items()}


def symbols_of(value) -> list:
    """Return the unbacked symbols of a node's value."""
    if isinstance(value, (tuple, list)):
        return [symbol for one in value for symbol in symbols_of(one)]
    sizes = value._rush_meta.shape if isinstance(value, Tensor) else (value,)
    return sorted((symbol for e in sizes if isinstance(e, Expr) for symbol in e.free
                   if symbol.op == "size" and symbol.arg[0].startswith("u")), key=lambda symbol: symbol.arg[0])


def nonnegative_parts(condition):
    """Integers that are at least 0 where a condition holds."""
    if condition.op == "logical_and":
        return [e for part in condition.args for e in nonnegative_parts(part)]
    if condition.op == "<":
        return [condition.args[1] - condition.args[0] - 1]
    if condition.op == "logical_not" and condition.args[0].op == "<":
        a, b = condition.args[0].args
        return [a - b]
    if condition.op == "==":
        a, b = condition.args
        return [a - b, b - a]
    return []


def bound(e, known):
    """Notes what follows for a symbol from ``e >= 0``, where that is about it alone."""
    parts, constant = terms(e)
    if len(parts) != 1:
        return
    (symbol, factor), = parts.items()
    if symbol not in known:
        return
    low, high = known[symbol]
    if factor > 0:
        found = -(constant // factor)
        known[symbol] = found if low is None else max(low, found), high
    else:
        found = constant // -factor
        known[symbol] = low, found if high is None else min(high, found)
