"""Epilogues and prologues as Exprs: functions of a contraction's sums, with other tensors as operands, before they are
stored, and of the parts of its operands."""

from ....core.dtypes import float32
from ....core.expr_text import show
from ....compiler import math
from ..llvm import scalars
from ..llvm.values import constant
from ..llvm.scalars import COMPUTED, STORED
from ..llvm.types import i64, ptr, vector
from ....compiler.target import leaf
from .contraction import Epilogue
from .elements import Prologue


def expression_epilogue(expr, operands=(), out=("c", float32), further=(), given=leaf("sums")):
    """The Epilogue that stores `expr` instead of the sums; `out` is the name and dtype of its output, `further` the
    other Stored values, `given` the leaf of the sums.

    Raises NotImplementedError, when the kernel is made, for operations without instructions.

    Example:
        >>> from ....core.expr import apply
        >>> relu = expression_epilogue(apply("maximum", leaf("sums"), 0.0))
        >>> len(relu.slots)
        1
    """
    out_name, out_dtype = out

    def emit(b, sums, batch, row, column, place, mask, slots):
        lanes = sums.type.lanes
        values = {given: sums}
        for operand, slot in zip(operands, slots[1:]):
            base = b.cast("inttoptr", slot, ptr)
            stored = STORED[operand.dtype.name]
            if operand.along == "one":
                value = b.splat(b.load(stored, base), lanes)
            elif operand.along == "row":
                value = b.splat(b.load(stored, b.offset(base, row, stored)), lanes)
            elif operand.along == "column":
                value = b.load(vector(stored, lanes), b.offset(base, column, stored), mask=mask)
            else:
                at = beside(b, place, slots[0], base, stored, out_dtype, lanes)
                value = b.gather(vector(stored, lanes), at, mask) if at.type.lanes else b.load(vector(stored, lanes),
                                                                                               at, mask=mask)
            values[leaf(operand.name, operand.dtype)] = scalars.from_memory(b, value, operand.dtype)
        emission = Emission(b, values, lanes)
        for output, slot in zip(further, slots[1 + len(operands):]):
            stored = STORED[output.dtype.name]
            at = beside(b, place, slots[0], b.cast("inttoptr", slot, ptr), stored, out_dtype, lanes)
            value = scalars.to_memory(b, emission.value(output.value), output.dtype)
            if at.type.lanes:
                b.scatter(value, at, mask)
            else:
                b.store(value, at, mask=mask)
        found = emission.value(expr)
        exact = found.type.element.is_float and not sums.type.element.is_float  # of integer sums, which would round it
        return found if exact else b.convert(found, sums.type.element)

    def touched(b, place, slots):
        elements = [(o.dtype, slot) for o, slot in zip(operands, slots[1:]) if o.along == "element"]
        elements += [(o.dtype, slot) for o, slot in zip(further, slots[1 + len(operands):])]
        return [beside(b, place, slots[0], b.cast("inttoptr", slot, ptr), STORED[dtype.name], out_dtype, 0)
                for dtype, slot in elements]

    kinds = ", ".join(f"{o.name}: {o.dtype} {o.along}" for o in operands)
    slots = tuple(("pointer", name, 0) for name in (out_name, *(o.name for o in operands), *(o.name for o in further)))
    outputs = ", ".join(str(o.dtype) for o in further)
    formula = "; ".join(show(expr, *(o.value for o in further)))
    return Epilogue(f"{formula} of {given.dtype} and {kinds} into {out_dtype} and {outputs}", slots, emit, touched)


def expression_prologue(value, leaves):
    """The Prologue that computes an operand as an Expr over these leaves, one for each of its parts.

    Raises NotImplementedError, when the kernel is made, for operations without instructions.

    Example:
        >>> from ....core.expr import apply
        >>> expression_prologue(apply("mul", leaf("x"), leaf("scale")), (leaf("x"), leaf("scale"))).parts
        (torch.float32, torch.float32)
    """
    def emit(b, values):
        return Emission(b, dict(zip(leaves, values)), values[0].type.lanes).value(value)

    names = ", ".join(f"{one.arg}: {one.dtype}" for one in leaves)
    return Prologue(f"{value.dtype} {show(value)} of {names}", value.dtype, tuple(one.dtype for one in leaves), emit)


def beside(b, place, out, base, stored, out_dtype, lanes):
    """The addresses in another tensor that correspond to the addresses (one, or a vector) of a vector of the output."""
    address = vector(i64, lanes) if place.type.lanes else i64
    at = b.sub(b.cast("ptrtoint", place, address), b.splat(out, lanes) if place.type.lanes else out)
    shift = out_dtype.itemsize.bit_length() - 1
    return b.offset(base, b.ashr(at, shift), stored)


class Emission:
    """Emits instructions for Exprs over vectors."""

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
        if e.op == "repeat":
            return self.repeat(e)
        x = [self.value(a) for a in e.args]
        return scalars.operation(b, e, x)

    def rarely(self, condition, unusual, usual):
        """A choice with a rare side, which is computed only if some lane needs it."""
        b, wanted, found = self.b, self.value(condition), self.value(usual)
        branch = Emission(b, dict(self.values), self.lanes)  # values computed in a branch are not available after it
        return b.when(b.reduce("or", wanted), lambda: [b.select(wanted, branch.value(unusual), found)],
                      lambda: [found])[0]

    def repeat(self, e):
        """A loop within one value."""
        b, (at, state, count) = self.b, e.arg

        def within(k, now, what):
            inner = {**self.values, at: b.splat(b.convert(k, COMPUTED[e.dtype.name]), self.lanes), state: now}
            return Emission(b, inner, self.lanes).value(what)

        return scalars.repeated(b, self.value(e.args[0]), count, lambda k, now: within(k, now, e.args[1]),
                                lambda k, now: within(k, now, e.args[2]))
