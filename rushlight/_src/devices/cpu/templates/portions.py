"""Counting and dividing the work of a matmul: operations, work units, strides of batches."""

from dataclasses import replace

from .blocked import BATCH_DIMS


def product(sizes):
    """All sizes multiplied."""
    total = 1
    for size in sizes:
        total *= size
    return total


def round_up(number, step):
    """The least multiple of a step that is at least `number`."""
    return -(-number // step) * step


def batch_slots(p, itemsizes):
    """Batch sizes and byte strides, padded in front to three dimensions."""
    if not p.batch:
        return NO_BATCH
    missing = BATCH_DIMS - len(p.batch)
    sizes = (1,) * missing + p.batch
    slots = {"batch_1": sizes[1], "batch_2": sizes[2]}
    for operand, itemsize in itemsizes.items():
        strides = (0,) * missing + getattr(p, operand)[:-2]
        slots.update({f"{operand}_batch_{dim}": stride * itemsize for dim, stride in enumerate(strides)})
    return slots


NO_BATCH = {"batch_1": 1, "batch_2": 1,
            **{f"{operand}_batch_{dim}": 0 for operand in "abc" for dim in range(BATCH_DIMS)}}

ALONE = 400_000  # operations up to which one thread computes a matmul: waking others takes longer


def work(p):
    """The operations of a matmul."""
    return 2 * p.sums[0] * product(p.batch) * p.rows * p.columns * max(p.depth, 8)


def grain(p, units, threads):
    """Work units per chunk: enough that claiming it costs little, few enough that threads finish together."""
    operations = work(p)
    if operations < ALONE:
        return units
    per_unit = operations / units
    return max(1, min(int(500_000 / per_unit), units // (4 * threads)))


def moved(step, places):
    """The kernel call with some operands at other addresses."""
    return replace(step, slots=tuple(places.get(slot[1], slot) if slot[0] == "pointer" else slot
                                     for slot in step.slots))


def renamed(plan, names):
    """The plan with its operands renamed, and the parts that they are computed from."""
    def slot(slot):
        if slot[0] != "pointer" or slot[1][0] not in names or not (slot[1] in names or slot[1][1:].isdecimal()):
            return slot
        return slot[0], names[slot[1][0]] + slot[1][1:], slot[2]

    steps = tuple(replace(step, slots=tuple(map(slot, step.slots))) for step in plan.steps)
    return replace(plan, steps=steps)
