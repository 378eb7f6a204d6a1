"""Code shared by kernels on matrices: rows in vectors, reports of failure, row interchanges."""

from ....core.failures import LAST
from ..llvm.types import i32, i64, vector
from ..llvm.values import constant


class Rows:
    """Emits loops over rows of elements at addresses, in vectors; the last one has a mask."""

    def __init__(self, f, element, lanes):
        self.f, self.element, self.lanes, self.kind = f, element, lanes, vector(element, lanes)

    def each(self, count, body):
        """Loop `body(first, mask)` over vectors of [0, count): full ones without a mask."""
        f, lanes = self.f, self.lanes
        whole = f.and_(count, -lanes)
        f.loop(0, whole, lanes, [], lambda at, _: body(at, None))
        f.when(f.compare("<", whole, count), lambda: body(whole, f.lane_mask(f.sub(count, whole), lanes)))

    def copied(self, source, target, count):
        """Copy a row of elements."""
        f = self.f

        def some(at, mask):
            f.store(f.load(self.kind, f.offset(source, at, self.element), mask=mask),
                    f.offset(target, at, self.element), mask=mask)

        self.each(count, some)

    def exchanged(self, one, other, count):
        """Interchange two rows."""
        f = self.f

        def some(at, mask):
            places = [f.offset(row, at, self.element) for row in (one, other)]
            values = [f.load(self.kind, place, mask=mask) for place in places]
            for value, place in zip(reversed(values), places):
                f.store(value, place, mask=mask)

        self.each(count, some)

    def filled(self, target, count, value):
        """Fill a row with one value."""
        f = self.f
        self.each(count, lambda at, mask: f.store(constant(self.kind, value), f.offset(target, at, self.element),
                                                  mask=mask))


def report(f, flag, failure, matrix, info):
    """Raise the error flag for a matrix with a failure (`info`, an i64, is not zero), if `failure`, the code to report,
    is not zero."""
    wrong = f.and_(f.cast("zext", f.compare("!=", info, 0), i64), f.cast("zext", f.compare("!=", failure, 0), i64))

    def raised():
        word = f.or_(f.or_(f.shl(f.sub(constant(i64, LAST), matrix), 32), f.shl(info, 8)), failure)
        f.atomic_update("umax", flag, word)

    f.when(f.compare("!=", wrong, 0), raised)


def number_at(f, numbers, k):
    """An int32 of a table as an i64."""
    return f.convert(f.load(i32, f.offset(numbers, k, i32)), i64)
