"""Nodes that Python computes between the programs of a graph: data-dependent numbers, and facts about them."""
from __future__ import annotations

import math
import operator

from ..core.expr import Expr, at_least, factors, modulo, size, terms
from ..core.nodes import INFINITY
from ..core.shape_env import ShapeEnv
from ..core.native import Op
from ..legacy import sym_float, sym_int, sym_max, sym_min, sym_sqrt
from .errors import Break


class Reading:
    """Node operator: a Python function of tensors and numbers. ``method``: the tensor method it implements."""

    traits, caches, kind, rules = {}, {}, None, {}

    def __init__(self, name, function, method=False):
        self.name, self.function, self.method = name, function, method

    def __call__(self, *args):
        return self.function(*args)

    def __repr__(self):
        return self.name


class Effect(Reading):
    """A function called for its side effect; such calls and checks stay in order, used or not."""

    def __init__(self, name, function, method=False):
        super().__init__(name, function, method)
        if not getattr(function, "effect", False):
            function.effect = True  # for users' graphs, which drop unread results


def as_is(value):
    """Return the number that an expression evaluated to."""
    return value


def require(condition, error):
    """Raise the error unless a condition holds."""
    if not condition:
        raise error.with_traceback(None)


def hold(tensor, error):
    """Raise the error unless the one element of a tensor is true."""
    if not tensor.item():
        raise error.with_traceback(None)


PICK = Reading("getitem", operator.getitem)  # one result of a node with several
SHIFT = Reading("shift", operator.add)  # advances an RNG stream offset
SHIFT.traits = {"counts": True}
ITEM = Reading("item", lambda tensor: tensor.item(), method=True)
SIZE = Reading("size", lambda tensor, dim: tensor.size(dim), method=True)
NUMBER = Reading("number", as_is)
REQUIRE = Effect("require", require)
HOLD = Effect("hold", hold)
OPERATORS = {symbol: Reading(f"number {symbol}", function) for symbol, function in {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "<": operator.lt, "<=": operator.le,
    "==": operator.eq, "!=": operator.ne,
    ">": operator.gt, ">=": operator.ge, "min": sym_min, "max": sym_max}.items()}
# by function: the Reading that calls it, and the type of its results
CONVERSIONS = {function: (Reading(function.__name__, reading), kind) for function, reading, kind in (
    (float, sym_float, float), (int, sym_int, int), (math.sqrt, sym_sqrt, float), (math.trunc, math.trunc, int),
    (math.floor, math.floor, int), (math.ceil, math.ceil, int))}


def measured(op) -> bool:
    """True if the sizes of an operator's results may depend on data, or Python reads them: its rule ``unmeasured`` says
    what is known before."""
    return isinstance(op, Op) and "unmeasured" in op.rules


def between(node) -> bool:
    """True if a node is computed between programs."""
    return measured(node.op) or isinstance(node.op, Reading) and (node.op is not PICK or between(node.args[0]))


def in_stages(nodes) -> bool:
    """True if Python reads numbers amid these nodes; RNG stream offsets are advanced anywhere."""
    return any(between(node) and node.op is not SHIFT for node in nodes)


def source_of(node) -> str:
    """Return a description of the origin of a data-dependent number."""
    if node.op is SIZE:
        tensor, dim = node.args
        made = tensor.args[0] if tensor.op is PICK else tensor
        return f"size {dim} of {getattr(made.op, 'name', made.op)}(){line_of(node)}"
    return f"{node.op}(){line_of(node)}"


def line_of(node) -> str:
    """Return the source line of a node as a string, empty for programs that were read from files."""
    return "" if node.where is None else f" in line {node.where[1]}"


class Assumptions(ShapeEnv):
    """The ShapeEnv of a capture: ``unbacked`` symbols have no example, and decide only what is proven or was
    checked."""

    def __init__(self):
        super().__init__()
        self.unbacked: dict = {}  # symbol -> the node that computes it
        self.number = None  # (symbol, a, b) -> a float of sizes, as a value of the graph
        self.checked: list = []  # expressions that are not negative, since the program checks them
        self.check = None  # (condition, error) -> True if the graph checks a data-dependent condition

    def unknown(self, e) -> bool:
        """True if an expression depends on data."""
        return isinstance(e, Expr) and not self.unbacked.keys().isdisjoint(e.free)

    def symbol(self, name, low=-INFINITY) -> Expr:
        """Return a new symbol for a data-dependent number; sizes are at least 0."""
        made = size(name, low)
        self.hints[made] = 3  # for estimates only
        self.unbacked[made] = None
        return made

    def decide(self, condition: Expr) -> bool:
        if not self.unknown(condition):
            return super().decide(condition)
        found = self.proven(condition)
        if found is None:
            raise Break("RB012" if self.estimating else "RB002", f"whether {condition}, where {self.told(condition)}")
        return found

    def postpones(self, condition: Expr, error) -> bool:
        return self.unknown(condition) and self.proven(condition) is None and self.check(condition, error())

    def integer(self, e: Expr) -> int:
        if self.unknown(e):
            raise Break("RB003", f"{e} must be known here, where {self.told(e)}")
        return super().integer(e)

    def told(self, e) -> str:
        """Return a description of an expression's unbacked symbols."""
        return " and ".join(f"{s.arg[0]} is {source_of(self.unbacked[s])}"
                            for s in sorted(e.free & self.unbacked.keys(), key=lambda s: s.arg[0]))

    def real(self, symbol, a, b):
        return super().real(symbol, a, b) if self.estimating else self.number(symbol, a, b)

    def assume(self, condition: Expr):
        """Assume a condition that the program checks when it runs."""
        if condition.op == "logical_and":
            for part in condition.args:
                self.assume(part)
        elif condition.op == "<":
            self.checked.append(condition.args[1] - condition.args[0] - 1)
        elif condition.op == "logical_not" and condition.args[0].op == "<":
            a, b = condition.args[0].args
            self.checked.append(a - b)
        elif condition.op == "==":
            a, b = condition.args
            self.checked += [a - b, b - a]
        self._known[condition] = True

    def proven(self, condition: Expr):
        """Return whether a condition on unbacked symbols holds; None if undecided."""
        if condition in self._known:
            return self._known[condition]
        if condition.op == "number":
            return condition.arg
        if condition.op == "logical_not":
            inner = self.proven(condition.args[0])
            return None if inner is None else not inner
        if condition.op in ("<", "=="):
            asked = *condition.args, condition.op == "=="
            found = self.filled(*asked) if self.estimating else None
            return self.compared(*asked) if found is None else found
        return None

    def compared(self, a, b, equal):
        """Return whether a < b, or a == b; None if undecided."""
        below, above = self.certain(b - a - 1), self.certain(a - b - equal)
        if equal:
            return False if below or above else True if self.certain(a - b) and self.certain(b - a) else None
        return True if below else False if above else None

    def certain(self, e) -> bool:
        """True if an integer is not negative, or no less than one that was checked."""
        e = replace_quotients(e)
        return self.plainly(e) or any(self.plainly(e - c) for c in self.checked)

    def plainly(self, e) -> bool:
        """True if an integer is not negative by algebra, or as a sum of products of nonnegative factors."""
        if at_least(e, 0):
            return True
        parts, constant = terms(e)
        return constant >= 0 and all(k > 0 and all(at_least(a, 0) or any(a is c for c in self.checked)
                                                   for a in factors(monomial)) for monomial, k in parts.items())

    def filled(self, a, b, equal):
        """Within an operator, whose program runs on actual sizes: return whether a size is 0, as if data-dependent
        sizes never were; None for all else."""
        if equal:
            return False if 0 in (a.arg, b.arg) and self.certain(a) and self.certain(b) else None
        if a.arg == 0 and self.certain(b):
            return True
        return False if b.arg == 1 and self.certain(a) else None


def replace_quotients(e):
    """Return an integer with ``c * (a // b)`` written as ``c // b * (a - a % b)`` if ``b`` divides ``c``: a checked
    remainder then also applies to multiples of the quotient.

    >>> u = size("u")
    >>> replace_quotients(u - 2 * (u // 2))
    u % 2
    """
    for monomial, coefficient in terms(e)[0].items():
        if monomial.op == "//" and monomial.args[1].op == "const" and coefficient % monomial.args[1].arg == 0:
            a, b = monomial.args[0], monomial.args[1].arg
            e = e - coefficient * monomial + coefficient // b * (a - modulo(a, b))
    return e
