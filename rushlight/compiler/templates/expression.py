"""Epilogues written as Exprs: what happens to a contraction's sums, with other tensors as operands, before they are stored."""

from dataclasses import dataclass

from ...core.dtypes import float32
from ...core.expr import Expr, text
from .. import math
from ..llvm import scalars
from ..llvm.builder import constant
from ..llvm.scalars import COMPUTED, STORED
from ..llvm.types import i64, ptr, vector
from .contraction import Epilogue


def leaf(name, dtype=float32) -> Expr:
    """What stands for the sums ("sums", in the type they are computed in) or for an operand in an epilogue's Expr.

    Example:
        >>> leaf("sums").dtype
        torch.float32
    """
    return Expr("scalar", (), name, dtype)


@dataclass(frozen=True)
class Operand:
    """A tensor that an epilogue reads: its name, dtype, and what it has a number for: "row" (a channel of a convolution),
    "column" (a feature of a linear layer), or "element" (the output, which it then is laid out as)."""

    name: str
    dtype: object
    along: str


def expression_epilogue(expr, operands=(), out=("c", float32)):
    """The Epilogue that stores `expr` instead of the sums; `out` is the name and dtype of the output it goes into.

    Raises NotImplementedError, when the kernel is made, for operations without instructions.

    Example:
        >>> from ...core.expr import apply
        >>> relu = expression_epilogue(apply("maximum", leaf("sums"), 0.0))
        >>> len(relu.slots)
        1
    """
    out_name, out_dtype = out

    def emit(b, sums, batch, row, column, place, mask, slots):
        lanes = sums.type.lanes
        values = {leaf("sums", expr_type(expr)): sums}
        for operand, slot in zip(operands, slots[1:]):
            base = b.cast("inttoptr", slot, ptr)
            stored = STORED[operand.dtype.name]
            if operand.along == "row":
                value = b.splat(b.load(stored, b.offset(base, row, stored)), lanes)
            elif operand.along == "column":
                value = b.load(vector(stored, lanes), b.offset(base, column, stored), mask=mask)
            else:
                value = beside(b, place, slots[0], base, stored, out_dtype, lanes, mask)
            values[leaf(operand.name, operand.dtype)] = scalars.from_memory(b, value, operand.dtype)
        result = Emission(b, values, lanes).value(expr)
        return b.convert(result, sums.type.element)

    kinds = ", ".join(f"{o.name}: {o.dtype} {o.along}" for o in operands)
    slots = (("pointer", out_name, 0), *(("pointer", o.name, 0) for o in operands))
    return Epilogue(f"{text(expr)} of {kinds} into {out_dtype}", slots, emit)


def expr_type(expr):
    """The dtype of the sums in an Expr."""
    stack = [expr]
    while stack:
        e = stack.pop()
        if e.op == "scalar" and e.arg == "sums":
            return e.dtype
        stack.extend(a for a in e.args if isinstance(a, Expr))
    return float32


def beside(b, place, out, base, stored, out_dtype, lanes, mask):
    """The elements of an operand at the places (one, or a vector of them) that a vector of the output goes to."""
    size = out_dtype.itemsize
    if place.type.lanes:
        at = b.sub(b.cast("ptrtoint", place, vector(i64, lanes)), b.splat(out, lanes))
        return b.gather(vector(stored, lanes), b.offset(base, b.div(at, size), stored), mask)
    at = b.sub(b.cast("ptrtoint", place, i64), out)
    return b.load(vector(stored, lanes), b.offset(base, b.div(at, size), stored), mask=mask)


class Emission:
    """Writes instructions for Exprs over vectors."""

    def __init__(self, b, values, lanes):
        self.b, self.values, self.lanes = b, values, lanes

    def value(self, e):
        """The vector that an Expr is."""
        if e not in self.values:
            self.values[e] = self.compute(e)
        return self.values[e]

    def compute(self, e):
        b = self.b
        if e.op == "number":
            return constant(vector(COMPUTED[e.dtype.name], self.lanes), e.arg)
        expansion = math.expand(e)
        if expansion is not e:
            return self.value(expansion)
        if e.op == "rarely":
            return self.rarely(*e.args)
        x = [self.value(a) for a in e.args]
        if e.op == "convert":
            return scalars.convert(b, x[0], e.args[0].dtype, e.dtype)
        made = scalars.operation(b, e.op, x, e.args[-1].dtype, e.dtype)
        if made is None:
            raise NotImplementedError(f"no instructions for {e.op} of {e.args[-1].dtype}")
        return made

    def rarely(self, condition, unusual, usual):
        """A choice of which one side is not even computed unless some lane wants it."""
        b, wanted, found = self.b, self.value(condition), self.value(usual)
        branch = Emission(b, dict(self.values), self.lanes)  # what is computed in a branch is not there after it
        return b.when(b.reduce("or", wanted), lambda: [b.select(wanted, branch.value(unusual), found)], lambda: [found])[0]
