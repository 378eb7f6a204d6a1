"""Comparisons of sizes: as syntax, as functions of nodes, and as expressions."""
from __future__ import annotations

import ast
import operator

from .._src.core.expr import eq, le, logical_not, lt, ne
from .._src.legacy import sym_not

COMPARED = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
            ast.Eq: operator.eq, ast.NotEq: operator.ne}
MIRRORED = {operator.lt: operator.gt, operator.gt: operator.lt, operator.le: operator.ge, operator.ge: operator.le,
            operator.eq: operator.eq, operator.ne: operator.ne}  # of the same operands in the other order
OPPOSITE = {operator.lt: operator.ge, operator.ge: operator.lt, operator.gt: operator.le, operator.le: operator.gt,
            operator.eq: operator.ne, operator.ne: operator.eq}
CONDITIONS = {operator.lt: lt, operator.le: le, operator.eq: eq, operator.ne: ne,
              operator.gt: lambda a, b: lt(b, a), operator.ge: lambda a, b: le(b, a), sym_not: logical_not,
              operator.not_: logical_not}
