"""The calling convention in the manifest for Python: names and nesting of arguments, and the kinds of results."""
from __future__ import annotations

import math

from ...utils.pytree_text import treespec_dumps
from ..core.expr import Expr, substitute
from ..core.native import Tensor
from ..core.pytree import tree_flatten
from .tracing import NotPackable

OPERATIONS = ("sum", "product", "//", "%", "max", "min")  # on sizes, as a manifest may have them
CONSTANTS = (int, float, bool, str, type(None))


def call_of(program, traced: list, varying: list) -> dict:
    """Return the calling convention of a program.  ``traced``: its traces; NotPackable for results that a manifest
    cannot describe, or that differ between traces."""
    count = program.out_spec.num_leaves
    if any(len(one.results) != count for one in traced):
        raise NotPackable(f"the program gives {len(traced[0].results)} results, and its nesting has {count}")
    widest = min(traced, key=lambda one: len(one.fixed))
    for one in traced:
        for mine, its in zip(widest.results, one.results):
            if type(mine) is not type(its) or type(mine) is int and mine != its:
                raise NotPackable("which tensors the results are depends on sizes")
            if type(mine) is tuple and not alike(substitute(mine[0], one.fixed), its[0]):
                raise NotPackable("a result that is no tensor is not computed alike for all sizes")
    symbols = {v.symbol: k for k, v in enumerate(varying)}
    return {"in_spec": spelled(program.in_spec), "out_spec": spelled(program.out_spec),
            "names": list(program.parameter_names[:len(program.example_inputs[0])]),
            "arguments": [None if isinstance(leaf, Tensor) else repr(leaf)
                          for leaf in tree_flatten(program.example_inputs)[0]],
            "results": rows_of(widest.results, symbols)}


def rows_of(results: list, symbols: dict) -> list:
    """The results as a manifest has them: None for the next of the outputs, {"output": k} for an earlier one."""
    rows, outputs = [], 0
    for one in results:
        new = one == outputs
        rows.append(None if new else {"output": one} if type(one) is int else row_of(one[0], symbols))
        outputs += new
    return rows


def alike(a, b) -> bool:
    """Whether two results are the same number, text or formula."""
    return a is b or (type(a) is type(b) and not isinstance(a, Expr) and a == b)


def row_of(value, symbols: dict) -> dict:
    """A result that is no tensor: {"value": what it is} or {"size": how it is computed}."""
    if isinstance(value, Expr):
        return {"size": formula(value, symbols)}
    if type(value) not in CONSTANTS or type(value) is float and not math.isfinite(value):
        raise NotPackable(f"a result is {value!r}: packages give tensors, sizes, finite numbers, text and None")
    return {"value": value}


def formula(e, symbols: dict):
    """An integer, the name of a size as [its number], or [operation, argument, operands]."""
    if type(e) is int:
        return e
    if isinstance(e, Expr) and e.dtype is None:
        if e in symbols:
            return [symbols[e]]
        if e.op == "const":
            return e.arg
        if e.op in OPERATIONS:
            coefficients = [list(e.arg[0]), e.arg[1]] if e.op == "sum" else None
            return [e.op, coefficients, [formula(a, symbols) for a in e.args]]
    raise NotPackable(f"a result is {e}, which packages do not compute: return tensors, sizes, integers made of them")


def spelled(spec) -> str:
    """A nesting as text; NotPackable where a class has no name."""
    try:
        return treespec_dumps(spec)
    except (NotImplementedError, TypeError) as error:
        raise NotPackable(f"arguments or results are nested in a way that a package cannot keep: {error}") from error
