"""Expr: the one language of scalars.  Sizes, guards, index arithmetic and kernel bodies are all Exprs.

An Expr is immutable and interned: equal expressions are one object, so ``is`` is equality.  There are two sorts:

- *Integers* (``dtype`` is None): sizes, strides, positions.  Sums are kept as polynomials with integer coefficients, so
  equal sums are one object; ``//`` and ``%`` split by divisibility.  What comes out constant comes out as a plain
  ``int``.
- *Scalars* (``dtype`` set): what a kernel computes for one element.  Their algebra never changes a rounding.

>>> s = size("s")
>>> (s * 4 + 2 - s * 4, (s * 8 + 4) // 4)
(2, 2*s + 1)
"""
from __future__ import annotations

import functools
import math
import operator

from .dtypes import bool_, float64
from .expr_text import text
from .nodes import INFINITY, Node
from .shape_env import ShapeEnv, decide, real


class Expr(Node):
    """One node of an expression: ``op``, ``args`` (Exprs), ``arg`` (further data that identifies it) and ``dtype``
    (None: integer).

    ``low`` and ``high`` bound an integer Expr.
    """

    __slots__ = ()
    __hash__ = object.__hash__

    def __add__(self, other):
        if type(other) is float and self.dtype is None:
            return real("+", self, other)
        return add(self, other) if self.dtype is None else apply("add", self, other)

    def __radd__(self, other):
        if type(other) is float and self.dtype is None:
            return real("+", other, self)
        return add(other, self) if self.dtype is None else apply("add", other, self)

    def __sub__(self, other):
        if type(other) is float and self.dtype is None:
            return real("-", self, other)
        return add(self, negate(other)) if self.dtype is None else apply("sub", self, other)

    def __rsub__(self, other):
        if type(other) is float and self.dtype is None:
            return real("-", other, self)
        return add(other, negate(self)) if self.dtype is None else apply("sub", other, self)

    def __mul__(self, other):
        if type(other) is float and self.dtype is None:
            return real("*", self, other)
        return multiply(self, other) if self.dtype is None else apply("mul", self, other)

    def __rmul__(self, other):
        if type(other) is float and self.dtype is None:
            return real("*", other, self)
        return multiply(other, self) if self.dtype is None else apply("mul", other, self)

    def __truediv__(self, other):
        return real("/", self, other) if self.dtype is None else apply("div", self, other)

    def __rtruediv__(self, other):
        return real("/", other, self) if self.dtype is None else apply("div", other, self)

    def __pow__(self, other):
        if type(other) is int and 0 <= other <= 16:
            return math.prod([self] * other)
        return real("**", self, other) if self.dtype is None else apply("pow", self, other)

    def __rpow__(self, other):
        return real("**", other, self) if self.dtype is None else apply("pow", other, self)

    def __floordiv__(self, other):
        return floor_divide(self, other)

    def __rfloordiv__(self, other):
        return floor_divide(other, self)

    def __mod__(self, other):
        return modulo(self, other)

    def __rmod__(self, other):
        return modulo(other, self)

    def __neg__(self):
        return negate(self) if self.dtype is None else apply("neg", self)

    def __eq__(self, other):
        if self is other or self.dtype is not None:
            return self is other
        return decide(eq(self, other)) if isinstance(other, (int, Expr)) else NotImplemented

    def __ne__(self, other):
        if self is other or self.dtype is not None:
            return self is not other
        return not decide(eq(self, other)) if isinstance(other, (int, Expr)) else NotImplemented

    def __lt__(self, other):
        return decide(lt(self, other)) if type(other) is not float else not self >= other

    def __le__(self, other):
        return decide(le(self, other)) if type(other) is not float else other == INFINITY or (
            other != -INFINITY and self <= math.floor(other))

    def __gt__(self, other):
        return decide(lt(other, self)) if type(other) is not float else not self <= other

    def __ge__(self, other):
        return decide(le(other, self)) if type(other) is not float else other == -INFINITY or (
            other != INFINITY and self >= math.ceil(other))

    def __bool__(self):
        return decide(ne(self, 0)) if self.dtype is None else decide(self)

    def __index__(self):
        return ShapeEnv.current().integer(self)

    __int__ = __index__

    def __repr__(self):
        return text(self)

    def equals(self, other) -> "Expr":
        """The condition that an integer is equal to another."""
        return eq(self, other)


# --- building integers ------------------------------------------------------------------------------------------------
def const(value: int) -> Expr:
    """An int as an Expr (arguments of Exprs are always Exprs)."""
    return value if isinstance(value, Expr) else Expr("const", (), int(value), None, int(value), int(value))


def size(name: str, low: int = 2, high=INFINITY) -> Expr:
    """A symbol: an integer in [low, high], at least 2 by default."""
    return Expr("size", (), (name, low, high), None, low, high)


def index(name: str, extent) -> Expr:
    """A loop variable: 0 <= index < extent."""
    high = extent - 1 if isinstance(extent, int) else extent.high - 1
    return Expr("index", (), (name, extent), None, 0, max(high, 0))


def extent_of(variable: Expr):
    """How many values a loop variable takes."""
    return variable.arg[1]


def plain(e):
    """A constant Expr as an int, anything else as it is."""
    return e.arg if isinstance(e, Expr) and e.op == "const" else e


def terms(e) -> tuple[dict, int]:
    """An integer as ({monomial: coefficient}, constant)."""
    if isinstance(e, int):
        return {}, e
    if e.op == "sum":
        return dict(zip(e.args, e.arg[0])), e.arg[1]
    if e.op == "const":
        return {}, e.arg
    return {e: 1}, 0


def total(parts: dict, constant: int):
    """The integer with these terms: an int where none is left."""
    parts = {m: c for m, c in parts.items() if c}
    if not parts:
        return constant
    if len(parts) == 1 and constant == 0:
        (monomial, coefficient), = parts.items()
        if coefficient == 1:
            return monomial
    ordered = sorted(parts, key=lambda m: m.serial)
    coefficients = tuple(parts[m] for m in ordered)
    low = high = constant
    for m, c in zip(ordered, coefficients):
        low += c * (m.low if c > 0 else m.high)
        high += c * (m.high if c > 0 else m.low)
    return Expr("sum", tuple(ordered), (coefficients, constant), None, low, high)


def factors(monomial: Expr) -> tuple:
    return monomial.args if monomial.op == "product" else (monomial,)


def product_of(atoms):
    """The monomial of these atoms, in canonical order."""
    atoms = tuple(sorted(atoms, key=lambda a: a.serial))
    if len(atoms) == 1:
        return atoms[0]
    low, high = 1, 1
    for a in atoms:
        corners = [0 if x == 0 or y == 0 else x * y for x in (low, high) for y in (a.low, a.high)]
        low, high = min(corners), max(corners)
    return Expr("product", atoms, None, None, low, high)


def negate(a):
    return multiply(a, -1)


def add(a, b):
    """a + b of integers."""
    return a + b if isinstance(a, int) and isinstance(b, int) else combine(((a, 1), (b, 1)), 0)


def combine(pairs, constant: int):
    """A constant plus the sum of integer * coefficient over these pairs."""
    parts: dict = {}
    for a, coefficient in pairs:
        found, x = terms(a)
        constant += coefficient * x
        for m, c in found.items():
            parts[m] = parts.get(m, 0) + coefficient * c
    return total(parts, constant)


def multiply(a, b):
    """a * b of integers."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    left, x = terms(a)
    right, y = terms(b)
    if not right:
        return plain(a) if y == 1 else total({m: c * y for m, c in left.items()}, x * y)
    if not left:
        return plain(b) if x == 1 else total({m: c * x for m, c in right.items()}, x * y)
    parts: dict = {m: c * y for m, c in left.items()}
    for m, c in right.items():
        parts[m] = parts.get(m, 0) + c * x
        for n, d in left.items():
            both = product_of(factors(m) + factors(n))
            parts[both] = parts.get(both, 0) + c * d
    return total(parts, x * y)


def split(a, divisor):
    """(q, r) with a = q * divisor + r, every term that divides moved into q; divisor an int or a single monomial."""
    parts, constant = terms(a)
    if isinstance(divisor, int):
        quotient = {m: c // divisor for m, c in parts.items() if c % divisor == 0}
        rest = {m: c for m, c in parts.items() if c % divisor}
        return total(quotient, constant // divisor), total(rest, constant % divisor)
    by, offset = terms(divisor)
    if len(by) != 1 or offset:
        return (1, 0) if a is divisor else (0, a)
    (monomial, scale), = by.items()
    quotient, rest, whole = {}, {}, 0
    for m, c in parts.items():
        left = _without(factors(m), factors(monomial)) if c % scale == 0 else None
        if left is None:
            rest[m] = c
        elif not left:
            whole += c // scale
        else:
            quotient[product_of(left)] = c // scale
    return total(quotient, whole), total(rest, constant)


def _without(atoms, removed):
    """The atoms less the removed ones, or None when one is missing."""
    left = list(atoms)
    for atom in removed:
        at = next((k for k, a in enumerate(left) if a is atom), None)
        if at is None:
            return None
        del left[at]
    return left


def floor_divide(a, b):
    """a // b of integers, rounding down."""
    a, b = plain(a), plain(b)
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if isinstance(b, int) and b == 1:
        return a
    if at_least(b, 1):
        quotient, rest = split(a, b)
        if within(rest, b):
            return quotient
        if not (isinstance(quotient, int) and quotient == 0):
            return add(quotient, floor_divide(rest, b))
        if isinstance(rest, Expr) and rest.op == "//" and rest.args[1].op == "const" and isinstance(b, int):
            return floor_divide(rest.args[0], rest.args[1].arg * b)
        coarse = coarser(rest, b)
        if coarse is not None:
            return floor_divide(coarse[0], b // coarse[2])
    low, high = (a.low, a.high) if isinstance(a, Expr) else (a, a)
    return Expr("//", (const(a), const(b)), None, None, 0 if low >= 0 else -INFINITY,
                high // b if isinstance(b, int) and b > 0 and high < INFINITY else high if low >= 0 else INFINITY)


def modulo(a, b):
    """a % b of integers, with the sign of b."""
    a, b = plain(a), plain(b)
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    if isinstance(b, int) and b == 1:
        return 0
    if at_least(b, 1):
        quotient, rest = split(a, b)
        if within(rest, b):
            return rest
        a = rest
        coarse = coarser(rest, b)
        if coarse is not None:
            return add(multiply(modulo(coarse[0], b // coarse[2]), coarse[2]), coarse[1])
    return Expr("%", (const(a), const(b)), None, None, 0, (b if isinstance(b, int) else b.high) - 1)


def coarser(a, b):
    """(q, r, unit) with a = q * unit + r, 0 <= r < unit, and unit above 1 a divisor of the number b, if there are such.

    >>> i, j = index("i", 6), index("j", 4)
    >>> floor_divide(i * 4 + j, 8) is i // 2
    True
    """
    if not isinstance(a, Expr) or not isinstance(b, int):
        return None
    for unit in sorted({math.gcd(c, b) for c in terms(a)[0].values()} - {1}, reverse=True):
        quotient, rest = split(a, unit)
        if within(rest, unit):
            return quotient, rest, unit
    return None


def maximum(a, b):
    """The larger of two integers."""
    if at_least(a - b, 0):
        return a
    if at_least(b - a, 0):
        return b
    a, b = sorted((const(a), const(b)), key=lambda e: e.serial)
    return Expr("max", (a, b), None, None, max(a.low, b.low), max(a.high, b.high))


def minimum(a, b):
    """The smaller of two integers."""
    if at_least(a - b, 0):
        return b
    if at_least(b - a, 0):
        return a
    a, b = sorted((const(a), const(b)), key=lambda e: e.serial)
    return Expr("min", (a, b), None, None, min(a.low, b.low), min(a.high, b.high))


def position(value: Expr, limit) -> Expr:
    """A scalar used as an index of a dimension of size ``limit``: known to be in [0, limit) once checked.

    One that counts, and is certainly in range, is that integer itself.
    """
    counted = value.args[0] if value.op == "value" else value.arg if value.op == "number" else None
    if counted is not None and within(plain(counted), limit):
        return plain(counted)
    return Expr("position", (value, const(limit)), None, None, 0, (limit if isinstance(limit, int) else limit.high) - 1)


def divisor(value: Expr) -> Expr:
    """An integer used as a divisor: once checked, not 0. One that is certainly not 0 is that number itself."""
    counted = value.args[0].low if value.op == "value" else value.arg if value.op == "number" else 0
    return value if counted > 0 or value.op == "number" and counted else Expr("divisor", (value,), None, value.dtype)


# --- proofs -----------------------------------------------------------------------------------------------------------
def at_least(e, bound: int) -> bool:
    """True if e >= bound is certain."""
    if isinstance(e, int):
        return e >= bound
    if e.low >= bound:
        return True
    return e.op == "sum" and nonnegative(e - bound)


def nonnegative(e) -> bool:
    """True if e >= 0 for all values: loop variables go to their worst end, symbols are counted from their least value.

    >>> s = size("s")
    >>> i = index("i", s)
    >>> nonnegative(s * 3 - 3 * i - 1)
    True
    """
    if isinstance(e, int):
        return e >= 0
    if e.low >= 0:
        return True
    parts, constant = terms(e)
    worst = {}
    for monomial, coefficient in parts.items():
        for atom in factors(monomial):
            if atom.op == "index" and atom not in worst:
                worst[atom] = coefficient
            if atom.op == "index" and (coefficient < 0) != (worst[atom] < 0) or atom.low < 0:
                return False
    if any(not atom.free.isdisjoint(worst) for m in parts for atom in factors(m) if atom.op != "index"):
        return False  # the worst end for one term need not be the worst within //, min and similar
    ends = {a: extent_of(a) - 1 if c < 0 else 0 for a, c in worst.items()}
    if ends:
        return nonnegative(substitute(e, ends))
    shifted = substitute(e, {a: add(Expr("size", (), (f"{a.serial}'", 0, INFINITY), None, 0, INFINITY), a.low)
                             for m in parts for a in factors(m) if a.op == "size" and a.low})
    if isinstance(shifted, int):
        return shifted >= 0
    parts, constant = terms(shifted)
    return constant >= 0 and all(c >= 0 and m.low >= 0 for m, c in parts.items())


def within(e, limit) -> bool:
    """True if 0 <= e < limit is certain."""
    if isinstance(e, int):
        return 0 <= e and at_least(limit - e, 1)
    if e.low < 0:
        return False
    if isinstance(limit, int) and e.high < limit:
        return True
    return nonnegative(limit - e - 1)


# --- conditions on integers -------------------------------------------------------------------------------------------
def truth(value) -> Expr:
    """True or False as an Expr."""
    return Expr("number", (), bool(value), bool_)


TRUE, FALSE = truth(True), truth(False)


def lt(a, b) -> Expr:
    """a < b, as an Expr: decided where algebra can."""
    difference = add(b, negate(a))
    if at_least(difference, 1):
        return TRUE
    if at_least(negate(difference), 0):
        return FALSE
    return Expr("<", (const(a), const(b)), None, bool_)


def le(a, b) -> Expr:
    """a <= b, as an Expr."""
    return lt(a, add(b, 1))


def eq(a, b) -> Expr:
    """a == b, as an Expr."""
    difference = add(a, negate(b))
    if isinstance(difference, int):
        return truth(difference == 0)
    if at_least(difference, 1) or at_least(negate(difference), 1):
        return FALSE
    parts, constant = terms(difference)
    if constant % math.gcd(*parts.values()):
        return FALSE
    a, b = sorted((const(a), const(b)), key=lambda e: e.serial)
    return Expr("==", (a, b), None, bool_)


def ne(a, b) -> Expr:
    """a != b, as an Expr."""
    return logical_not(eq(a, b))


def logical_and(a: Expr, b: Expr) -> Expr:
    """Both conditions."""
    return apply("logical_and", a, b)


def logical_not(a: Expr) -> Expr:
    """The opposite condition."""
    return apply("logical_not", a)


# --- scalars ----------------------------------------------------------------------------------------------------------
COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not",
                         "isnan"))


def number(value, dtype) -> Expr:
    """A constant of a dtype."""
    value = bool(value) if dtype is bool_ else float(value) if dtype.is_floating_point else int(value)
    return Expr("number", (), value, dtype)


def load(buffer, at, dtype, mask: Expr | None = None) -> Expr:
    """The element at a position of a buffer, and zero where the mask does not hold (memory is not touched there)."""
    if mask is TRUE:
        mask = None
    if mask is FALSE:
        return number(0, dtype)
    return Expr("load", (const(at),) if mask is None else (const(at), mask), buffer, dtype)


def value(e, dtype) -> Expr:
    """An integer (a position, a size) as a scalar of a dtype."""
    return number(e, dtype) if isinstance(e, int) else Expr("value", (e,), None, dtype)


def scalar_of(e, dtype) -> Expr:
    """A number, or an integer Expr, as a scalar of a dtype."""
    return (convert if e.dtype else value)(e, dtype) if isinstance(e, Expr) else number(e, dtype)


EXACT = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg}


def computed(op: str, args):
    """An operation on numbers, some derived from sizes: an integer if that is exact, else a float64 scalar.

    >>> s = size("s")
    >>> computed("sub", (s, 1)), computed("div", (1.0, s))
    (s - 1, 1.0 / float64(s))
    """
    if op in EXACT and all(isinstance(a, int) or isinstance(a, Expr) and a.dtype is None for a in args):
        return EXACT[op](*args)
    return apply(op, *(scalar_of(a, float64) for a in args), dtype=float64)


def apply(op: str, *args, dtype=None, arg=None) -> Expr:
    """A scalar operation; numbers among the arguments take the dtype of the Exprs among them."""
    like = next((a.dtype for a in reversed(args) if isinstance(a, Expr)), dtype)
    args = tuple(a if isinstance(a, Expr) else number(a, like) for a in args)
    result = dtype or (bool_ if op in COMPARISONS else args[-1].dtype)
    found = rules.simplify(op, args, arg, result)
    return Expr(op, args, arg, result) if found is None else found


def convert(x: Expr, dtype) -> Expr:
    """x as another dtype."""
    return x if x.dtype is dtype else apply("convert", x, dtype=dtype)


def as_stored(x: Expr) -> Expr:
    """The value that memory would hold of a 16-bit float, which is carried as float32: so that a sum is the same with
    and without materialized terms."""
    return apply("as_stored", x) if x.dtype.is_half and x.op != "load" else x


def where(condition: Expr, a, b) -> Expr:
    """a where the condition holds, else b."""
    return apply("where", condition, a, b)


def repeated(count: int, start: Expr, step, going=None, name: str = "s") -> Expr:
    """The state after ``step(k, state)`` for k = 0, 1, ..., count - 1 (given as a scalar of the same dtype), starting
    from ``start``: a loop within one element's value.

    It may end earlier, once ``going(state)`` holds for no element that is computed at the same time.
    """
    at, state = (Expr("state", (), f"{name}.{part}", start.dtype) for part in ("at", "value"))
    return Expr("repeat", (start, step(at, state), going(state) if going else TRUE), (at, state, count), start.dtype)


# --- parts replaced ---------------------------------------------------------------------------------------------------
REBUILD = {"//": floor_divide, "%": modulo, "max": maximum, "min": minimum, "<": lt, "==": eq}


def substitute(e, replacements: dict, memo: dict | None = None):
    """``e`` with the Exprs in ``replacements`` replaced; integers that become constant come out as ints."""
    if not isinstance(e, Expr):
        return e
    memo = {} if memo is None else memo
    found = memo.get(e)
    if found is None:
        found = replacements.get(e)
        if found is None:
            found = e if not e.args else rebuild(e, [substitute(a, replacements, memo) for a in e.args])
        memo[e] = found
    return found


def rebuild(e: Expr, args):
    """``e`` with other arguments."""
    if all(new is old for new, old in zip(args, e.args)):
        return e
    if e.op == "sum":
        return combine(zip(args, e.arg[0]), e.arg[1])
    if e.op == "product":
        return functools.reduce(multiply, args, 1)
    if e.op in REBUILD:
        return REBUILD[e.op](*map(plain, args))
    if e.op == "load":
        return load(e.arg, args[0], e.dtype, *args[1:])
    if e.op == "value":
        return value(plain(args[0]), e.dtype)
    if e.op == "position":
        return position(const(args[0]), plain(args[1]))
    return apply(e.op, *args, dtype=e.dtype, arg=e.arg)


# here and not where they are used, since nothing can be imported while Python ends
from . import rules  # noqa: E402 - rules build Exprs, so they import this file
