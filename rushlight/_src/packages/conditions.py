"""Conditions of an exported program on the sizes of its inputs, as Exprs of the dynamic sizes."""
from __future__ import annotations

import operator

from ..core.expr import Expr, apply, eq, le, logical_and, logical_not, lt, ne

ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}
COMPARED = {"<": lt, "<=": le, ">": lambda a, b: lt(b, a), ">=": lambda a, b: le(b, a), "==": eq, "!=": ne,
            "and": logical_and, "or": lambda a, b: apply("logical_or", a, b)}


def express_conditions(conditions, size) -> list:
    """Return the conditions, trees of (operator, a, b), sizes and ints, as Exprs, but for those that always hold.

    Args:
        size: the int or Expr that a size of the trees is.
    """
    found = [express(one, size) for one in conditions]
    return [c for c in found if isinstance(c, Expr) and c.free]


def expressible(tree) -> bool:
    """True if a condition, or a part of it, has a form as an Expr."""
    return not isinstance(tree, (tuple, float)) or isinstance(tree, tuple) and (
        tree[0] in COMPARED or tree[0] in ARITHMETIC) and all(map(expressible, tree[1:]))


def express(tree, size):
    """Return a condition or a number of a tree."""
    if not isinstance(tree, tuple):
        return tree if type(tree) is int else size(tree)
    kind, first, second = tree
    if kind == "==" and second == 0 and isinstance(first, tuple) and first[0] in COMPARED:
        return logical_not(express(first, size))
    return (COMPARED.get(kind) or ARITHMETIC[kind])(express(first, size), express(second, size))
