"""Guards on the sizes of a program's inputs: calls check them, and they must follow from ``dynamic_shapes``."""
from __future__ import annotations

import ast
import functools
import itertools
import math
import operator

from .._src.capture.constraints import VaryingInt
from .._src.capture.errors import UserError
from .._src.core.expr import Expr
from .._src.core.native import Tensor
from .capturing import is_shape_item, is_size, reads_size
from .dims import Hint

ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
              ast.Div: "/", ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
FUNCTIONS = {"logical_and": "and", "logical_or": "or", "max": "max", "min": "min"}  # as the text of guards calls them
COMPARED = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
             "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
             "!=": operator.ne, "and": lambda a, b: a and b, "or": lambda a, b: a or b, "/": operator.truediv,
             "**": operator.pow, "&": operator.and_, "|": operator.or_, "^": operator.xor, "max": max, "min": min}
UNARY = {f.__name__: f for f in (abs, round, int, float, math.ceil, math.floor, math.trunc, math.sqrt, math.log,
                                 math.log2, math.exp)}
OPERATORS |= {name: lambda a, b, function=function: function(a) for name, function in UNARY.items()}  # of (name, a, 0)
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
TRIED = 40  # sizes of a Dim for which a condition is looked at
MORE = 'For more information, run with RUSHLIGHT_LOGS="dynamic".'


class Unknown(Exception):
    """A guard that is not about sizes alone."""


class Size:
    """The size of a dimension of an input: its number among the leaves, and the dimension; None for an int that
    varies itself."""

    def __init__(self, leaf, dim):
        self.leaf, self.dim = leaf, dim

    def __eq__(self, other):
        return isinstance(other, Size) and (self.leaf, self.dim) == (other.leaf, other.dim)

    def __hash__(self):
        return hash((self.leaf, self.dim))

    def value_in(self, leaves) -> int:
        """The size in a call with these inputs."""
        return leaves[self.leaf] if self.dim is None else leaves[self.leaf].shape[self.dim]

    def text(self, names) -> str:
        """The size as text; ``names``: those of the inputs."""
        return names[self.leaf] if self.dim is None else f"{names[self.leaf]}.size()[{self.dim}]"


def conditions_of(found, leaves, expected) -> list:
    """The conditions under which a captured program is right: trees (operator, a, b) of Sizes and ints."""
    places = {id(leaf): k for k, leaf in enumerate(leaves) if isinstance(leaf, (Tensor, VaryingInt))}

    def read(tree):
        if isinstance(tree, ast.Constant) and isinstance(tree.value, (int, float)):
            return tree.value
        if isinstance(tree, ast.BinOp) and type(tree.op) in ARITHMETIC:
            return ARITHMETIC[type(tree.op)], read(tree.left), read(tree.right)
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
            return "-", 0, read(tree.operand)
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
            return negated(read(tree.operand))
        if isinstance(tree, ast.BoolOp) and len(tree.values) == 2:
            return "and" if isinstance(tree.op, ast.And) else "or", *map(read, tree.values)
        if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in COMPARED:
            return COMPARED[type(tree.ops[0])], read(tree.left), read(tree.comparators[0])
        if is_size(tree, found.numbers):
            return read_size(tree)
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.keywords:
            return read_call(tree.func.id, tree.args)
        raise Unknown

    def read_size(tree):
        dim = tree.slice.value if is_shape_item(tree) else None
        owner = found.owner_of(tree if dim is None else tree.value.value)
        k = places.get(id(owner))
        if k is not None and dim in expected[k][2]:
            return Size(k, dim)
        return int(owner if dim is None else owner.shape[dim])

    def read_call(name, arguments):
        if name in ("logical_not", "bool") and len(arguments) == 1:
            inner = read(arguments[0])
            return negated(inner) if name == "logical_not" else ("!=", inner, 0)
        if name in FUNCTIONS and len(arguments) == 2:
            return FUNCTIONS[name], *map(read, arguments)
        function = found.owner_of(ast.Name(name, ast.Load()))
        known = next((label for label, one in UNARY.items() if one is function), None)
        if known is None or len(arguments) != 1:
            raise Unknown
        return known, read(arguments[0]), 0

    def varies(tree) -> bool:
        """True if an expression contains a dynamic size."""
        parts = [one for one in ast.walk(tree) if is_size(one, found.numbers)
                 and (not is_shape_item(one) or isinstance(one.slice, ast.Constant))]
        return any(isinstance(read(one), Size) for one in parts)

    made = []
    for guard in found.guards:
        text = str(guard).partition("  # ")[0]
        if ".shape[" not in text and not any(number in text for number in found.numbers):
            continue
        try:
            tree = ast.parse(text, mode="eval").body
            if not reads_size(tree, found.numbers):
                continue
            outcome = is_decision(tree)
            if outcome is None:
                made.append(read(tree))  # of divisibility
                continue
        except (Unknown, SyntaxError, AttributeError):
            continue  # about what else capture assumes, which the exported program has fixed
        try:
            condition = read(tree.left)
        except Unknown:
            if not varies(tree.left):
                continue
            raise UserError(f"the program depends on whether {ast.unparse(tree.left)}, which cannot be checked when "
                            "it is called: leave that size out of dynamic_shapes, or compute the condition by "
                            f"arithmetic, min, max, {', '.join(UNARY)}") from None
        made.append(condition if outcome else negated(condition))
    return [c for c in made if sizes_in(c)]


def is_decision(tree):
    """True or False for ``expression is True`` or ``is False``; None for other expressions."""
    if not (isinstance(tree, ast.Compare) and len(tree.ops) == 1 and isinstance(tree.ops[0], ast.Is)):
        return None
    outcome = tree.comparators[0]
    return outcome.value if isinstance(outcome, ast.Constant) and type(outcome.value) is bool else None


def negated(condition):
    """The condition that holds where another does not."""
    if isinstance(condition, tuple) and condition[0] in OPPOSITE:
        return OPPOSITE[condition[0]], *condition[1:]
    return "==", condition, 0


def tree_of(e, places: dict):
    """Return an expression, such as a condition under which a program is right, as a tree.

    Args:
        places: the Size, or the tree, that a symbol is.

    Raises:
        Unknown: if it depends on other symbols, or on elements of tensors.
    """
    if not isinstance(e, Expr):
        return e
    if e in places:
        return places[e]
    if e.op == "const":
        return e.arg
    if e.op == "logical_not":
        return negated(tree_of(e.args[0], places))
    parts = [tree_of(one, places) for one in e.args]
    if e.op == "sum":
        factors, constant = e.arg
        parts = [part if factor == 1 else ("*", part, factor) for factor, part in zip(factors, parts)]
        return functools.reduce(lambda a, b: ("+", a, b), [*parts, constant] if constant else parts)
    if e.op == "product":
        return functools.reduce(lambda a, b: ("*", a, b), parts)
    kind = FUNCTIONS.get(e.op, e.op)
    if kind not in OPERATORS or kind in UNARY or len(parts) != 2:
        raise Unknown
    return kind, *parts


def sizes_in(tree) -> list:
    """The Sizes in a condition, each once."""
    if isinstance(tree, Size):
        return [tree]
    return list(dict.fromkeys(s for part in tree[1:] for s in sizes_in(part))) if isinstance(tree, tuple) else []


def value(tree, sizes):
    """Evaluate a condition or a number in it for {Size: int}."""
    if isinstance(tree, Size):
        return sizes[tree]
    if not isinstance(tree, tuple):
        return tree
    a, b = value(tree[1], sizes), value(tree[2], sizes)
    if tree[0] in ("/", "//", "%") and b == 0:
        return 0
    return OPERATORS[tree[0]](a, b)


def is_integral(tree) -> bool:
    """True if an expression over sizes is an integer for all sizes."""
    if isinstance(tree, tuple):
        return tree[0] not in ("/", "**", *UNARY) and all(map(is_integral, tree[1:]))
    return not isinstance(tree, float)


def plain(condition):
    """A condition with its number last, and no strict comparison with it."""
    if isinstance(condition, tuple) and isinstance(condition[1], int) and condition[0] in TURNED:
        condition = TURNED[condition[0]], condition[2], condition[1]
    if isinstance(condition, tuple) and isinstance(condition[-1], int) and condition[0] in ("<", ">") and is_integral(
            condition[1]):
        change = 1 if condition[0] == ">" else -1
        condition = condition[0] + "=", condition[1], condition[2] + change
    if isinstance(condition, tuple) and isinstance(condition[1], tuple) and isinstance(condition[2], int) and condition[
            1][0] in ("+", "-") and isinstance(condition[1][2], int):
        kind, (sign, inner, number), bound = condition
        return plain((kind, inner, bound - number if sign == "+" else bound + number))
    return condition


def text(tree, name) -> str:
    """A condition as text; ``name(size)``: what a Size is called."""
    if isinstance(tree, Size):
        return name(tree)
    if not isinstance(tree, tuple):
        return str(tree)
    parts = [text(p, name) for p in tree[1:]]
    inner = [f"({p})" if isinstance(t, tuple) and tree[0] in ("*", "/", "//", "%", "**") and t[0] in ("+", "-") else p
             for p, t in zip(parts, tree[1:])]
    if tree[0] in UNARY:
        return f"{tree[0]}({parts[0]})"
    return f"{tree[0]}({', '.join(parts)})" if tree[0] in ("max", "min") else f"{inner[0]} {tree[0]} {inner[1]}"


def bounds(condition):
    """(Size, least, greatest) where a condition bounds one size; None for others."""
    condition = plain(condition)
    if isinstance(condition, tuple) and isinstance(condition[1], Size) and isinstance(condition[2], int):
        kind, size, number = condition
        if kind in (">=", "<=", "=="):
            return size, number if kind != "<=" else None, number if kind != ">=" else None
    return None


class Checking:
    """Whether the conditions of a program follow from its Dims.  ``names``: what the inputs are called."""

    def __init__(self, conditions, expected, names):
        self.conditions, self.expected, self.names = conditions, expected, names

    def dim(self, size):
        return self.expected[size.leaf][2][size.dim]

    def source(self, size) -> str:
        return size.text([f"L['{name}']" for name in self.names])

    def run(self):
        """Raise UserError with all conditions that do not follow, and their fixes."""
        problems, fixes, named = [], [], []
        for condition in self.conditions:
            sizes = sizes_in(condition)
            if any(isinstance(self.dim(s), Hint) for s in sizes) or not self.fails(condition, sizes):
                continue
            name = self.dim(sizes[-1]).__name__
            problem, fix = self.told(condition, sizes)
            if problem not in problems:
                problems.append(problem)
                named.append(name)
                fixes += [fix] if fix and fix not in fixes else []
        if problems:
            wanted = "\nSuggested fixes:\n  " + "\n  ".join(fixes) if fixes else ""
            raise UserError(f"Constraints violated ({', '.join(dict.fromkeys(named))})! {MORE}\n  - "
                            + "\n  - ".join(problems) + wanted)

    def fails(self, condition, sizes) -> bool:
        """Whether there are sizes that the Dims allow, and for which a condition does not hold."""
        roots = {self.dim(s).root.__name__: self.dim(s).root for s in sizes}
        ranges = []
        for root in roots.values():
            low = max(root.min, 2)
            ranges.append([n for n in range(low, low + TRIED // len(roots)) if root.max is None or n <= root.max])
            ranges[-1] += [n for n in (root.max, low + 997) if n is not None and (root.max is None or n <= root.max)]
        for found in itertools.product(*ranges):
            given = dict(zip(roots, found))
            now = {s: self.dim(s).factor * given[self.dim(s).root.__name__] + self.dim(s).offset for s in sizes}
            if all(n >= 2 for n in now.values()) and not value(condition, now):
                return True
        return False

    def told(self, condition, sizes) -> tuple:
        """Return (error, fix) of one condition."""
        name = self.dim(sizes[-1]).__name__
        known = bounds(condition)
        if known is not None:
            _, low, high = known
            guard = text(plain(condition), self.source)
            least, most = low, high
            parts = [f"{k}={v}" for k, v in (("min", least or self.dim(sizes[0]).min or None),
                                             ("max", most if most is not None else self.dim(sizes[0]).max))
                     if v is not None]
            return (f"Not all values of {name} = {self.source(sizes[0])} in the specified range satisfy the generated "
                    f"guard {guard}", f"{name} = Dim('{name}', {', '.join(parts)})")
        if condition[0] == "==" and len(sizes) == 2:
            first, second = sizes
            a, b = self.dim(first).__name__, self.dim(second).__name__
            shift = value(condition[1], {first: 0, second: 0}) - value(condition[2], {first: 0, second: 0})
            if isinstance(condition[1], Size) and isinstance(condition[2], Size):
                return (f"The values of {b} = {self.source(second)} and {a} = {self.source(first)} must always be "
                        "equal.", f"{b} = {a}")
            if all(value(condition, {first: n, second: n + shift}) for n in (5, 9, 20)):
                change = f"{a} {'+' if shift > 0 else '-'} {abs(shift)}"
                return (f"The values of {b} = {self.source(second)} must always be related to the values of {a} = "
                        f"{self.source(first)} by {b} = {change}.", f"{b} = {change}")
        return (f"Not all values of {name} = {self.source(sizes[-1])} in the specified range satisfy the generated "
                f"guard {text(plain(condition), self.source)}", None)
