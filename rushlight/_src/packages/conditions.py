"""Conditions of an exported program on the sizes of its inputs, as Exprs of the sizes that vary."""
from __future__ import annotations

import operator

from ..core.expr import Expr, apply, eq, le, logical_and, logical_not, lt, ne

ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}
COMPARED = {"<": lt, "<=": le, ">": lambda a, b: lt(b, a), ">=": lambda a, b: le(b, a), "==": eq, "!=": ne,
            "and": logical_and, "or": lambda a, b: apply("logical_or", a, b)}


class Unsafe(Exception):
    """A condition that divides by what may be 0."""


def express_conditions(conditions, size) -> list:
    """Return the conditions, trees of (operator, a, b), sizes and ints, as Exprs, but for those that always hold or
    that divide by what is computed.

    Args:
        size: the int or Expr that a size of the trees is.
    """
    found = []
    for one in conditions:
        try:
            found.append(express(one, size))
        except Unsafe:
            continue  # the program's own guards decide there
    return [c for c in found if isinstance(c, Expr) and c.free]


def express(tree, size):
    """Return a condition or a number of a tree."""
    if not isinstance(tree, tuple):
        return tree if type(tree) is int else size(tree)
    kind, first, second = tree
    if kind == "==" and second == 0 and isinstance(first, tuple) and first[0] in COMPARED:
        return logical_not(express(first, size))
    if kind in ("//", "%") and isinstance(second, tuple):
        raise Unsafe
    return (COMPARED.get(kind) or ARITHMETIC[kind])(express(first, size), express(second, size))
