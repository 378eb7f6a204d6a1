"""Rows of matrices in another order: that of the exchanges that elimination made."""

from ..llvm import jit
from ..llvm.values import constant
from ..llvm.scalars import STORED
from ..llvm.types import i32, i64
from .rows import Rows, number_at, report
from .units import Units

SLOTS = ("source", "target", "pivots", "rows", "columns", "count", "row", "matrix", "pivot_bytes")
POINTERS = ("source", "target", "pivots")


def exchange_kernel(dtype, identity, step=1):
    """Return the address of the kernel that copies matrices with rows interchanged, a matrix per work unit; without a
    source, the identity, with ones at every ``step``-th element.
    """
    return jit.build(f"exchange {dtype} {identity} {step}", lambda: _text(dtype, identity, step),
                     ["exchange"])["exchange"]


def _text(dtype, identity, step):
    kernel, element = Units("exchange", SLOTS, POINTERS), STORED[dtype]
    f, named = kernel.f, kernel.loaded()
    rows = Rows(f, element, kernel.lanes(element))

    def matrix(unit):
        target, pivots = f.offset(named["target"], f.mul(unit, named["matrix"])), f.offset(named["pivots"],
                                                                                           f.mul(unit, named[
                                                                                               "pivot_bytes"]))
        if identity:
            f.fill_bytes(target, 0, named["matrix"])
            f.loop(0, named["rows"], 1, [],
                   lambda i, _: f.store(constant(element, 1.0),
                                        f.offset(f.offset(target, f.mul(i, named["row"])), f.mul(i, step), element)))
        else:
            f.copy_bytes(target, f.offset(named["source"], f.mul(unit, named["matrix"])), named["matrix"])

        def exchanged(j, _):
            other = f.sub(number_at(f, pivots, j), 1)
            places = [f.offset(target, f.mul(i, named["row"])) for i in (j, other)]
            f.when(f.compare("!=", j, other), lambda: rows.exchanged(*places, named["columns"]))

        f.loop(0, named["count"], 1, [], exchanged)

    return kernel.text(matrix)


ORDER_SLOTS = ("pivots", "order", "flag", "rows", "count", "failure")


def order_kernel():
    """Return the address of the kernel that writes the permutation of rows (int64) that row interchanges make, a matrix
    per work unit."""
    return jit.build("order of rows", _order_text, ["order"])["order"]


def _order_text():
    kernel = Units("order", ORDER_SLOTS, ("pivots", "order", "flag"))
    f = kernel.f
    pivots, order, flag, size, count, failure = kernel.loaded().values()

    def matrix(unit):
        own, places = f.offset(pivots, f.mul(unit, count), i32), f.offset(order, f.mul(unit, size), i64)
        f.loop(0, size, 1, [], lambda i, _: f.store(i, f.offset(places, i, i64)))

        def exchanged(j, _):
            given = f.sub(number_at(f, own, j), 1)
            other = f.minimum(f.maximum(given, 0), f.sub(size, 1))  # a user's own pivots may be anything
            report(f, flag, failure, unit, f.cast("zext", f.compare("!=", given, other), i64))
            one, two = f.offset(places, j, i64), f.offset(places, other, i64)
            values = f.load(i64, one), f.load(i64, two)
            f.store(values[1], one)
            f.store(values[0], two)

        f.loop(0, count, 1, [], exchanged)

    return kernel.text(matrix)
