"""Sequence: several kernels and matmuls as one Contraction, for blocked algorithms on matrices."""

from dataclasses import dataclass, replace

from .contraction import Contraction, Epilogue, KernelCall, written_slots
from .matmul import Matmul, plan_matmul


@dataclass(frozen=True)
class Part:
    """A block of a batch of matrices: its memory ("pointer" or "temp", with a name), the offset of its first element,
    and the strides of matrices, rows and columns, all in elements."""

    where: str
    name: str
    at: int
    matrix: int
    row: int
    column: int = 1

    def moved(self, row, column):
        """The block that begins `row` rows and `column` columns further on."""
        return replace(self, at=self.at + row * self.row + column * self.column)

    @property
    def turned(self):
        """The same, transposed."""
        return replace(self, row=self.column, column=self.row)

    def slot(self, size):
        return self.where, self.name, self.at * size


def _subtract(b, sums, batch, row, column, place, mask, slots):
    found = b.gather(sums.type, place, mask) if place.type.lanes else b.load(sums.type, place, mask=mask)
    return b.sub(found, sums)


SUBTRACTED = Epilogue("subtracted", emit=_subtract)  # from the old contents of the output


class Sequence:
    """A list of kernel calls under construction, for `count` matrices of a dtype."""

    def __init__(self, count, dtype, size):
        self.count, self.dtype, self.size = count, dtype, size
        self.steps, self.temporaries, self.keep = [], {}, []

    def temporary(self, name, nbytes):
        """Memory that all kernel calls share, by name."""
        self.temporaries[name] = max(nbytes, self.temporaries.get(name, 0))
        return "temp", name, 0

    def kernel(self, address, extent, names, numbers, sources, grain=1):
        """Add a kernel call, with slots in its order of names."""
        self.steps.append(KernelCall(address, extent, grain, written_slots(names, numbers, sources)))

    def product(self, c, a, b, rows, columns, depth, epilogue=SUBTRACTED):
        """Add the matmul c -= a @ b, or with another epilogue of the sums."""
        if not rows or not columns:
            return
        strides = [(part.matrix, part.row, part.column) for part in (a, b, c)]
        plan = plan_matmul(Matmul((self.count,), rows, columns, depth, *strides, self.dtype), epilogue)
        places = {"a": a, "b": b, "c": c}
        for step in plan.steps:
            self.steps.append(replace(step, slots=tuple(self._moved(slot, places) for slot in step.slots)))
        for name, nbytes in plan.temporaries.items():
            self.temporary(f"product {name}", nbytes)
        self.keep.append(plan)

    def _moved(self, slot, places):
        if slot[0] == "pointer":
            where, name, offset = places[slot[1]].slot(self.size)
            return where, name, offset + slot[2]
        return ("temp", f"product {slot[1]}", slot[2]) if slot[0] == "temp" else slot

    def contraction(self):
        """The plan of all kernel calls."""
        return Contraction(tuple(self.steps), self.temporaries, tuple(self.keep))
