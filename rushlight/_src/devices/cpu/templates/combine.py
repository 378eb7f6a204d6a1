"""Adding up partial sums: the last kernel call of a split-K matmul."""

from ..llvm import jit
from ..llvm.types import i64
from ..llvm.values import constant, zero
from .tile import Store
from .units import Units

SLOTS = ("partial", "c", "parts", "part_bytes", "columns", "c_row")


def combine_kernel(numbers, out, epilogue):
    """Return the address of the kernel that sums parts, a row of C per work unit, and runs the epilogue."""
    key = f"combine {numbers} {out} {epilogue.key}"
    return jit.build(key, lambda: _combine_text(numbers, out, epilogue), ["combine"])["combine"]


def _combine_text(numbers, out, epilogue):
    kernel = Units("combine", SLOTS, ("partial", "c"))
    f, s = kernel.f, kernel.s
    store = Store(numbers, out, epilogue, len(SLOTS))
    columns, parts, part_bytes = s.columns, s.parts, s.part_bytes

    def row(r):
        source = f.offset(s.partial, f.mul(r, columns), numbers.accumulator)
        target = f.offset(s.c, f.mul(r, s.c_row))

        def some(column, _):
            mask = f.lane_mask(f.sub(columns, column), numbers.lanes)

            def add(part, values):
                at = f.offset(f.offset(source, f.mul(part, part_bytes)), column, numbers.accumulator)
                return [f.add(values[0], f.load(numbers.vector, at, mask=mask))]

            total, = f.loop(0, parts, 1, [zero(numbers.vector)], add)
            store.finish(f, kernel.args, total, f.offset(target, column, out), constant(i64, 0), r, column, mask)

        f.loop(0, columns, numbers.lanes, [], some)

    return kernel.text(row)
