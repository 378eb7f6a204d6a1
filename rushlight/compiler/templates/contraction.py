"""What the contraction templates share: numbers, epilogues, and the plan they return."""

from dataclasses import dataclass, field
from typing import Callable

from ..llvm.features import host
from ..llvm.types import bf16, f16, f32, f64, i8, i16, i32, i64, ptr, vector

ELEMENTS = {"float32": f32, "float64": f64, "float16": f16, "bfloat16": bf16, "int8": i8, "uint8": i8,
            "int16": i16, "int32": i32, "int64": i64}

CHUNK = 4  # words along K that a packed operand is padded to, and that the tile's loop takes at once


@dataclass(frozen=True)
class Numbers:
    """How elements of one dtype are multiplied: packed into words, of which the machine multiplies a vector at once.

    A word is one element, converted to the accumulator's type, or a pair of bfloats for the dot product instruction.
    """

    name: str
    element: object
    word: object
    per_word: int
    accumulator: object
    lanes: int
    signed: bool = True

    @property
    def vector(self):
        return vector(self.accumulator, self.lanes)

    @property
    def words(self):
        return vector(self.word, self.lanes)

    def multiply_add(self, b, x, y, sum):
        """sum + x * y, of word vectors."""
        if self.per_word == 2:
            name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * self.lanes}"
            pairs = vector(bf16, 2 * self.lanes)
            return b.call(name, [sum, b.bitcast(x, pairs), b.bitcast(y, pairs)], self.vector)
        if self.accumulator.is_float:
            return b.fma(x, y, sum)
        return b.add(b.mul(x, y), sum)


def numbers(dtype):
    """The Numbers of a dtype name on this CPU. Raises ValueError for dtypes that have no products.

    Example:
        >>> numbers("float32").accumulator
        float
    """
    element = ELEMENTS.get(dtype)
    if element is None:
        raise ValueError(f"no contraction for {dtype}; there is one for {', '.join(ELEMENTS)}")
    features = host()
    if element is bf16 and features.bf16:
        return Numbers(dtype, bf16, i32, 2, f32, features.lanes(4))
    if element in (f16, bf16):
        return Numbers(dtype, element, f32, 1, f32, features.lanes(4))
    if element in (i8, i16):
        return Numbers(dtype, element, i32, 1, i32, features.lanes(4), signed=dtype != "uint8")
    # a vector holds a quad at least, be it in two registers
    return Numbers(dtype, element, element, 1, element, max(CHUNK, features.lanes(element.bytes)))


@dataclass(frozen=True)
class Epilogue:
    """What happens to finished sums before they are stored.

    `emit(b, sums, batch, row, column, mask, slots)` gets a vector of sums for one row and neighbouring columns, the
    position as i64 values (of the first lane), a lane mask or None, and the epilogue's own slots as i64 values; it returns
    the vector to store, still in the accumulator's type. `key` names the code completely; `slots` are as in Contraction.
    """

    key: str = ""
    slots: tuple = ()
    emit: Callable | None = field(default=None, compare=False)


NO_EPILOGUE = Epilogue()


def bias_epilogue(dtype, operand="bias"):
    """Adds a contiguous vector of `dtype`, one number a column: the bias of a linear layer.

    Example:
        >>> bias_epilogue("float32").key
        'bias float32'
    """
    element = ELEMENTS[dtype]

    def emit(b, sums, batch, row, column, mask, slots):
        base = b.cast("inttoptr", slots[0], ptr)
        bias = b.load(sums.type.with_element(element), b.offset(base, column, element), mask=mask)
        return b.add(sums, b.convert(bias, sums.type.element))

    return Epilogue(f"bias {dtype}", (("pointer", operand, 0),), emit)


@dataclass(frozen=True)
class Step:
    """One kernel call: `kernel(slots, begin, end, worker)` over `extent` units in chunks of `grain`."""

    kernel: int
    extent: int
    grain: int
    slots: tuple


@dataclass(frozen=True)
class Contraction:
    """A planned contraction: steps in order, and the temporaries (name to bytes) that they need, 64-byte aligned.

    Slots are ("pointer", operand, byte offset), ("temp", name, byte offset) or ("const", number).
    Constants may be addresses of tables in `keep`, so whoever runs the steps holds on to the plan.
    """

    steps: tuple
    temporaries: dict
    keep: tuple = ()  # tables that the slots point into

    def code(self, values):
        """The steps as words of a program; `values` gives the index of each operand and temporary in the value table.

        The count of steps that a program starts with is left to the caller, who may join several contractions.
        """
        words = []
        for step in self.steps:
            words += [step.kernel, step.extent, step.grain, len(step.slots)]
            for slot in step.slots:
                words += [-1, slot[1]] if slot[0] == "const" else [values[slot[1]], slot[2]]
        return words
