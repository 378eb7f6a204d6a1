"""Exprs as text: in one line, and in several with names for shared parts."""
from __future__ import annotations

from .nodes import LEAVES, Node

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
         "ne": "!=",
         "logical_and": "and", "logical_or": "or", "//": "//", "%": "%", "<": "<", "==": "=="}


class Printer:
    """Exprs as text.  ``names`` maps parts to names, such as shared parts already printed."""

    def __init__(self, names=None):
        self.names = dict(names or {})

    def text(self, e) -> str:
        if not isinstance(e, Node):
            return str(e)
        found = self.names.get(e)
        return found if found is not None else self.spell(e)

    def inner(self, e) -> str:
        """The text as an operand: in parentheses if it is a sum or an operation."""
        written = self.text(e)
        return f"({written})" if e not in self.names and (e.op == "sum" or e.op in INFIX) else written

    def spell(self, e: Node) -> str:
        op = e.op
        if op in ("const", "number"):
            return str(e.arg)
        if op in LEAVES:
            return str(e.arg[0])
        if op == "scalar":
            return str(e.arg)
        if op == "product":
            return "*".join(sorted(map(self.inner, e.args)))
        if op == "sum":
            return self.sum(e)
        if op in INFIX:
            return f"{self.inner(e.args[0])} {INFIX[op]} {self.inner(e.args[1])}"
        if op == "load":
            mask = f" if {self.text(e.args[1])}" if len(e.args) > 1 else ""
            return f"{e.arg}[{self.text(e.args[0])}{mask}]"
        inner = [self.text(a) for a in e.args]
        if op in ("convert", "value", "bitcast"):
            name = e.dtype.name if op != "bitcast" else f"bits_{e.dtype.name}"
            return f"{name}({', '.join(inner)})"
        return f"{op}({', '.join(inner)})"

    def sum(self, e: Node) -> str:
        coefficients, constant = e.arg
        parts = sorted((self.inner(m), c) for m, c in zip(e.args, coefficients))
        out = ""
        for written, c in parts:
            sign = " - " if c < 0 else " + "
            out += (sign if out else "-" if c < 0 else "") + (written if abs(c) == 1 else f"{abs(c)}*{written}")
        return out + (f" {'-' if constant < 0 else '+'} {abs(constant)}" if constant else "")


def text(e) -> str:
    """One line, readable infix."""
    return Printer().text(e)


def show(*roots, names=None) -> list[str]:
    """Lines of text in which every shared part is named once; the last lines are the roots'.

    >>> from .expr import size
    >>> x = size("x")
    >>> show((x // 3) * (x // 3 + 1))
    ['v0 = x // 3', 'v0 + v0*v0']
    """
    printer, uses, lines = Printer(names), {}, []

    def count(e):
        uses[e] = uses.get(e, 0) + 1
        if uses[e] == 1:
            for a in e.args:
                count(a)

    def name_shared(e):
        if e in printer.names or e in seen:
            return
        seen.add(e)
        for a in e.args:
            name_shared(a)
        if uses[e] > 1 and e.args and e.op not in ("product",):
            written = printer.spell(e)
            fresh = f"v{len(lines)}"
            printer.names[e] = fresh
            lines.append(f"{fresh} = {written}")

    seen: set = set()
    expressions = [e for e in roots if isinstance(e, Node)]
    for e in expressions:
        count(e)
    for e in expressions:
        name_shared(e)
    return lines + [printer.text(e) for e in roots]
