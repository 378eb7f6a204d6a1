"""Node: the immutable, interned tree that an Expr is, without its algebra, and the value of one."""
from __future__ import annotations

import itertools
import math
import operator
import threading
from sys import getrefcount

from .forking import guarded

INFINITY = math.inf
LEAVES = frozenset(("size", "index", "result", "slot", "state"))


FEWEST = 1 << 14  # nodes in the table before those that nothing else holds are dropped


def references(table: dict, key) -> int:
    """``getrefcount`` of a table's value that nothing else holds, where a local variable refers to it."""
    value = table[key]
    return getrefcount(value)


HELD = references({0: object()}, 0)


class Node:
    """The fields of an Expr, which explains them; ``serial`` counts nodes in the order in which they were made.

    The table of nodes holds them strongly, since weak references cost as much as making the nodes; when it has grown to
    twice what the last ``sweep`` left, the next one drops the nodes that are in use nowhere else.
    """

    __slots__ = ("op", "args", "arg", "dtype", "low", "high", "serial", "_free", "_operations", "__weakref__")
    _table: dict = {}
    _limit = FEWEST
    _serials = itertools.count()
    _lock = guarded("expressions", threading.RLock())

    def __new__(cls, op, args=(), arg=None, dtype=None, low=-INFINITY, high=INFINITY):
        key = (op, args, repr(arg) if isinstance(arg, (float, complex)) else arg, type(arg), dtype)
        found = cls._table.get(key)
        return found if found is not None else cls._make(key, op, args, arg, dtype, low, high)

    @classmethod
    def _make(cls, key, op, args, arg, dtype, low, high):
        with cls._lock:  # two threads must not make two objects of one expression
            found = cls._table.get(key)
            if found is None:
                found = object.__new__(cls)
                found.op, found.args, found.arg, found.dtype, found.low, found.high = op, args, arg, dtype, low, high
                found.serial, found._free, found._operations = next(cls._serials), None, None
                if len(Node._table) >= Node._limit:
                    Node.sweep()
                Node._table[key] = found
            return found

    @staticmethod
    def sweep():
        """Drops the nodes that only the table holds, the caller holding the lock.  Other threads may look nodes up
        meanwhile, and wait for the lock before they make one."""
        table, keys = Node._table, list(Node._table)
        while keys:  # users before their operands: a node is made after its parts
            key = keys.pop()
            node = table[key]
            if getrefcount(node) == HELD:
                del table[key]
                if getrefcount(node) >= HELD:  # it was found before it was gone
                    table[key] = node
        Node._limit = max(FEWEST, 2 * len(table))

    @property
    def free(self) -> frozenset:
        """The symbols and loop indices this depends on, loads included."""
        if self.op in LEAVES:  # not kept: a node that refers to itself would stay in the table
            return frozenset((self,)).union(*(a.free for a in self.args))
        if self._free is None:
            self._free = frozenset().union(*(a.free for a in self.args))
        return self._free

    @property
    def operations(self) -> frozenset:
        """The operations that compute this and its parts: "load", "sum", "index" ..."""
        if self._operations is None:
            inner = frozenset().union(*(a.operations for a in self.args))
            self._operations = inner if self.op in inner else inner | {self.op}
        return self._operations


def in_bounds(index, limit):
    """A constant index.  IndexError where it lies outside."""
    if not 0 <= index < limit:
        raise IndexError(f"index {index} is out of bounds for dimension with size {limit}")
    return index


ARITHMETIC = {"position": in_bounds, "value": lambda a: a, "convert": lambda a: a, "neg": operator.neg,
              "sqrt": math.sqrt, "pow": operator.pow, "maximum": max, "minimum": min, "add": operator.add,
              "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
              "remainder": operator.mod,
              "floor_divide": operator.floordiv,
              "//": operator.floordiv, "%": operator.mod, "max": max, "min": min, "<": operator.lt, "==": operator.eq,
              "logical_and": lambda a, b: a and b, "logical_or": lambda a, b: a or b, "logical_not": operator.not_}


def evaluate(e, values: dict):
    """The number that an integer or a condition is when its leaves (Exprs, or their names) have these values.

    >>> from .expr import size
    >>> evaluate(size("s") * 3 + 1, {"s": 5})
    16
    """
    if not isinstance(e, Node):
        return e
    if e.op in ("const", "number"):
        return e.arg
    if e.op == "sum":
        coefficients, out = e.arg
        for monomial, coefficient in zip(e.args, coefficients):
            out += coefficient * evaluate(monomial, values)
        return out
    if e.op == "product":
        return math.prod(evaluate(a, values) for a in e.args)
    if e.op in LEAVES:
        found = values.get(e)
        if found is None:
            found = values[e.arg[0]]
        return found
    return ARITHMETIC[e.op](*(evaluate(a, values) for a in e.args))
