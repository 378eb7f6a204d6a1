"""Arithmetic on sizes as text, in the notation of SymPy's ``srepr``:
``Mul(Integer(3), Symbol('s0', integer=True))``."""
from __future__ import annotations

import ast
import functools
import operator

from ..._src.core import expr
from ..._src.core.expr import Expr
from ..._src.core.nodes import INFINITY
from .fields import LARGEST, SerializeError

LONGEST, DEEPEST, MOST = 20_000, 100, 100  # characters of a text; calls within calls; terms of a sum
RELATIONS = {"<": "StrictLessThan", "==": "Equality", "logical_and": "And", "logical_or": "Or", "logical_not": "Not"}
BINARY = {"//": "FloorDiv", "%": "Mod", "max": "Max", "min": "Min"}


def is_data(symbol: Expr) -> bool:
    """True if a symbol is unbacked."""
    return symbol.arg[0].startswith("u")


def written(e, names: dict) -> str:
    """An expression as text; ``names`` has the names of symbols, and gets those of new ones."""
    if type(e) in (bool, int, float):
        return str(e).lower() if type(e) is bool else f"Integer({e})" if type(e) is int else f"Float('{e!r}')"
    if e.op == "size":
        name = names.setdefault(e, e.arg[0] if is_data(e) else f"s{len(names)}")
        is_positive = e.low > 0 and not is_data(e)
        return f"Symbol('{name}', positive=True, integer=True)" if is_positive else f"Symbol('{name}', integer=True)"
    if e.op in ("const", "number"):
        return written(e.arg, names)
    parts = [written(a, names) for a in e.args]
    if e.op == "product":
        return f"Mul({', '.join(parts)})"
    if e.op == "sum":
        coefficients, constant = e.arg
        parts = [part if k == 1 else f"Mul(Integer({k}), {part})" for part, k in zip(parts, coefficients)]
        parts += [f"Integer({constant})"] * (constant != 0)
        return f"Add({', '.join(parts)})" if len(parts) > 1 else parts[0]
    if e.op in RELATIONS or e.op in BINARY:
        return f"{(RELATIONS | BINARY)[e.op]}({', '.join(parts)})"
    raise SerializeError(f"the size {e} cannot be written: there is no text for {e.op}")


def folded(function):
    return lambda *parts: functools.reduce(lambda a, b: bounded(function(a, b)), parts)


def count(e) -> int:
    """Of how many terms a polynomial is the sum."""
    return len(e.args) + 1 if isinstance(e, Expr) and e.op == "sum" else 1


def times(a, b):
    """A product.  SerializeError, before it is computed, for one of many terms."""
    if count(a) * count(b) > 10 * MOST:
        raise SerializeError("the file has a size of too many terms")
    return bounded(a * b)


def power(base, exponent):
    if type(exponent) is not int or not 0 <= exponent <= 4:
        raise SerializeError(f"the file has a size to the power of {exponent}")
    return functools.reduce(times, [base] * exponent, 1)


def divided(a, b):
    if type(b) is int and b == 0:
        raise SerializeError("the file divides a size by 0")
    return a // b


def remainder(a, b):
    if type(b) is int and b == 0:
        raise SerializeError("the file divides a size by 0")
    return a % b


def condition(a):
    """A value that is a condition, as an expression."""
    if type(a) is bool:
        return expr.truth(a)
    if not isinstance(a, Expr) or a.dtype is None:
        raise SerializeError(f"the file has {a} where a condition on sizes belongs")
    return a


CALLS = {"Add": folded(operator.add), "Mul": folded(times), "Pow": power, "FloorDiv": divided,
         "PythonMod": remainder, "Mod": remainder, "Max": folded(lambda a, b: expr.maximum(a, b)),
         "Min": folded(lambda a, b: expr.minimum(a, b)), "CleanDiv": divided, "IntTrueDiv": divided,
         "StrictLessThan": expr.lt, "StrictGreaterThan": lambda a, b: expr.lt(b, a), "LessThan": expr.le,
         "GreaterThan": lambda a, b: expr.le(b, a), "Equality": expr.eq, "Unequality": expr.ne,
         "And": folded(lambda a, b: expr.apply("logical_and", condition(a), condition(b))),
         "Or": folded(lambda a, b: expr.apply("logical_or", condition(a), condition(b))),
         "Not": lambda a: expr.logical_not(condition(a))}


def read(text: str, symbols: dict):
    """An int, a truth or an expression of a text; ``symbols`` has them by name, and gets new ones.  SerializeError for
    anything else."""
    if len(text) > LONGEST or text.count("(") > 2000:
        raise SerializeError(f"the file has a size of {len(text)} characters")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise SerializeError(f"the file has {text[:60]!r} for a size") from None
    return value(tree, symbols, 0)


def bounded(found):
    """Return a call's result.  SerializeError for a polynomial of many terms, which further calls would blow up."""
    if isinstance(found, Expr) and len(found.args) > MOST or type(found) is int and abs(found) >= LARGEST:
        raise SerializeError("the file has a size of too many terms")
    return found


def value(tree, symbols, depth):
    if depth > DEEPEST:
        raise SerializeError("the file has a size that is nested too deeply")
    if isinstance(tree, ast.Constant) and type(tree.value) is int and abs(tree.value) < LARGEST:
        return tree.value
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -value(tree.operand, symbols, depth + 1)
    if isinstance(tree, ast.Name):
        return {"true": True, "false": False}[tree.id] if tree.id in ("true", "false") else symbol(tree.id, symbols)
    if isinstance(tree, ast.BinOp) and type(tree.op) in INFIX:
        a, b = (value(part, symbols, depth + 1) for part in (tree.left, tree.right))
        return bounded(CALLS[INFIX[type(tree.op)]](a, b))
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        name = tree.func.id
        if name == "Symbol" and tree.args and isinstance(tree.args[0], ast.Constant):
            return symbol(tree.args[0].value, symbols, any(k.arg == "positive" for k in tree.keywords))
        if name == "Integer" and len(tree.args) == 1:
            return value(tree.args[0], symbols, depth + 1)
        if name in CALLS and tree.args:
            found = [value(a, symbols, depth + 1) for a in tree.args]
            try:
                return bounded(CALLS[name](*found))
            except TypeError:
                raise SerializeError(f"the file has {name} of {len(found)} sizes") from None
    raise SerializeError(f"the file has {ast.unparse(tree)[:60]!r} in a size, which is not known")


INFIX = {ast.Mult: "Mul", ast.Add: "Add", ast.FloorDiv: "FloorDiv", ast.Mod: "Mod", ast.Pow: "Pow"}


def symbol(name, symbols, is_positive=True):
    """The symbol of a name; a new one is a size, unless its text does not say that it is positive."""
    if type(name) is not str or not name.isidentifier() or len(name) > 60:
        raise SerializeError(f"the file has a size named {name!r}"[:100])
    if name not in symbols:
        symbols[name] = expr.size(name, 0 if name.startswith("u") else 2 if is_positive else -INFINITY)
    return symbols[name]
