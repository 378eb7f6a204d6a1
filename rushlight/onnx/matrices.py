"""Inverses of matrices in ONNX, which has no operator for them: elimination in a Loop."""

from __future__ import annotations

from .._src.core.dtypes import bool_, int32, int64
from .._src.core.meta import product
from .errors import OnnxExporterError
from .rules import rule, scalar


@rule("inverse")
def inverse(w, node, a, check):
    """Gauss-Jordan elimination of [a | 1] with row pivots, one column a step; and for each matrix 0, or the number of
    its first column without a pivot, which leaves numbers that are not finite."""
    if a.dtype.is_complex:
        raise OnnxExporterError("the inverse of complex matrices is not written as ONNX: invert a real matrix")
    batch, n, dtype = a.shape[:-2], a.shape[-1], a.dtype
    count, steps = product(batch), scalar(w, n)
    rows = w.emit("Range", w.constant(0), steps, w.constant(1))
    flat = w.emit("Reshape", w.value(a, dtype), w.vector((count, n, n)), allowzero=1)
    unit = w.cast(w.emit("Equal", w.emit("Unsqueeze", rows, w.constant([1])), rows), dtype)
    both = w.emit("Concat", flat, w.emit("Expand", unit, w.vector((count, n, n))), axis=2)
    singular = w.emit("Expand", w.constant(0, int32), w.vector((count,)))
    body = Elimination(w, rows, dtype).graph()
    both, singular = w.emit("Loop", steps, "", both, singular, outputs=2, body=body)
    ends = w.vector((n,)), w.vector((2 * n,)), w.constant([2])
    return (w.emit("Reshape", w.emit("Slice", both, *ends), w.vector(a.shape), allowzero=1),
            w.emit("Reshape", singular, w.vector(batch), allowzero=1))


class Elimination:
    """The body of the Loop: (step, condition, matrices, columns without pivots) -> (condition, matrices, columns)."""

    def __init__(self, w, rows, dtype):
        self.w, self.rows, self.dtype = w, rows, dtype

    def graph(self):
        w = self.w
        step, condition, matrices, singular = (w.fresh(stem) for stem in ("step", "condition", "matrices", "singular"))
        inputs = [(step, int64, []), (condition, bool_, []), (matrices, self.dtype, None), (singular, int32, None)]
        return w.subgraph("eliminate", inputs, lambda: [(w.emit("Identity", condition), bool_), *zip(
            self.eliminate(step, matrices, singular), (self.dtype, int32))])

    def eliminate(self, step, matrices, singular):
        """The matrices with one more column of the unit matrix."""
        w, is_row = self.w, self.w.emit("Equal", self.rows, step)
        matrices = w.emit("GatherElements", matrices, self.order(step, matrices, is_row), axis=1)
        row = w.emit("Gather", matrices, step, axis=1)
        pivot = w.emit("Gather", row, step, axis=1)
        scaled = w.emit("Unsqueeze", w.emit("Div", row, w.emit("Unsqueeze", pivot, w.constant([1]))), w.constant([1]))
        factors = w.emit("Unsqueeze", w.emit("Gather", matrices, step, axis=2), w.constant([2]))
        rest = w.emit("Sub", matrices, w.emit("Mul", factors, scaled))
        fails = w.emit("And", w.emit("Equal", pivot, w.constant(0, self.dtype)),
                       w.emit("Equal", singular, w.constant(0, int32)))
        number = w.cast(w.emit("Add", step, w.constant(1)), int32)
        return (w.emit("Where", w.emit("Unsqueeze", is_row, w.constant([1])), scaled, rest),
                w.emit("Where", fails, number, singular))

    def order(self, step, matrices, is_row):
        """The rows of each matrix with that of the greatest pivot in the place of the step, as GatherElements takes
        them."""
        w, rows = self.w, self.rows
        column = w.emit("Gather", matrices, step, axis=2)
        sizes = w.emit("Where", w.emit("GreaterOrEqual", rows, step), w.emit("Abs", column), w.constant(-1, self.dtype))
        best = w.emit("ArgMax", sizes, axis=1, keepdims=1)
        order = w.emit("Where", is_row, best, w.emit("Where", w.emit("Equal", rows, best), step, rows))
        return w.emit("Expand", w.emit("Unsqueeze", order, w.constant([2])), w.emit("Shape", matrices))
