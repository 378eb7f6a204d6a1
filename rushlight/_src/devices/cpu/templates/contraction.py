"""Numbers, epilogues and plans shared by the contraction templates."""

from dataclasses import dataclass, field, replace
from typing import Callable

import numpy as np

from ....compiler.launch import CONSTANT, Launch, Table
from ..llvm import dots, tiles
from ..llvm.values import constant
from ..llvm.features import remembered, targeted
from ..llvm.types import bf16, f16, f32, f64, i8, i16, i32, i64, vector

ELEMENTS = {"float32": f32, "float64": f64, "float16": f16, "bfloat16": bf16, "int8": i8, "uint8": i8,
            "int16": i16, "int32": i32, "int64": i64}

# words along K that a packed operand is padded to, and that the tile's loop takes at once; AMX tiles take more
CHUNK = 4


@dataclass(frozen=True)
class Numbers:
    """The multiplication of elements of one dtype: packed into words, a vector at a time.

    A word is one element, converted to the accumulator's type, or several elements for `dot`, an instruction that
    multiplies and adds them up: each is converted to `part` first. `signed` is the signedness of A's elements,
    `b_signed` of B's. `flips`: the instruction requires unsigned A, so 128 is added to A's bytes and 128 times B's
    subtracted from the sums. `tiles`: the kind of AMX multiplication (llvm/tiles.py), or none.  `blocks`: an
    instruction that multiplies two rows by two columns, for tiles of more than one row.
    """

    name: str
    element: object
    word: object
    per_word: int
    accumulator: object
    lanes: int
    signed: bool = True
    part: object = None
    b_signed: bool = True
    flips: bool = False
    tiles: str = ""
    dot: dots.Dot | None = None
    blocks: dots.Blocks | None = None

    @property
    def chunk(self):
        """Words along k that a packed operand is padded to, and that a step of the loop along k takes."""
        return tiles.WORDS if self.tiles else CHUNK

    @property
    def vector(self):
        return vector(self.accumulator, self.lanes)

    @property
    def words(self):
        return vector(self.word, self.lanes)

    @property
    def of_b(self):
        """The same for packing B."""
        return replace(self, signed=self.b_signed)

    def multiply_add(self, b, x, y, sum):
        """sum + x * y, of word vectors of A and of B."""
        if self.dot:
            return self.dot.emit(b, sum, b.xor(x, _FLIP) if self.flips else x, y)
        if self.accumulator.is_float:
            return b.fma(x, y, sum)
        return b.add(b.mul(x, y), sum)

    def add_excess(self, b, y, sum):
        """sum + 128 y: the excess that flipping A adds to every row."""
        return self.dot.emit(b, sum, constant(self.words, _FLIP), y)


_FLIP = 0x80808080 - (1 << 32)  # 128 in each byte of a word


def unpaired(kind):
    """The same dtype with one element a word: values computed for few rows are not rounded to 16 bits, which takes
    longer than the multiplication."""
    if kind.per_word == 2 and kind.accumulator is f32:
        return Numbers(kind.name, kind.element, f32, 1, f32, kind.lanes)
    return kind


@remembered()
def numbers(dtype, b_dtype=""):
    """Return the Numbers of a dtype name on this CPU; 8-bit integers may differ in signedness between A and B. Raises
    ValueError for dtypes without a matmul kernel.

    Example:
        >>> numbers("float32").accumulator
        float
    """
    element = ELEMENTS.get(dtype)
    if element is None or b_dtype not in ("", dtype) and {dtype, b_dtype} != {"uint8", "int8"}:
        raise ValueError(f"no contraction for {dtype} and {b_dtype or dtype}; there is one for {', '.join(ELEMENTS)}")
    features = targeted()
    if element is bf16 and features.bf16:
        return Numbers(dtype, bf16, i32, 2, f32, features.lanes(4), part=i16, dot=dots.of_bfloats(features),
                       blocks=dots.blocks_of_bfloats(features))
    if element in (f16, bf16):
        return Numbers(dtype, element, f32, 1, f32, features.lanes(4))
    if element in (i8, i16):
        return _whole_numbers(dtype, b_dtype or dtype, element, features)
    # a vector holds a quad at least, be it in two registers
    return Numbers(dtype, element, element, 1, element, max(CHUNK, features.lanes(element.bytes)))


@remembered()
def tile_numbers(dtype, b_dtype=""):
    """Return the Numbers of matmuls by AMX tiles; None if this CPU or the dtype has none.

    Example:
        >>> tile_numbers("float64") is None
        True
    """
    element = ELEMENTS.get(dtype)
    if not targeted().tiles or element not in (bf16, i8):
        return None
    if element is bf16:
        return Numbers(dtype, bf16, i32, 2, f32, tiles.WORDS, part=i16, tiles="bf16ps")
    signs = [(one or dtype) != "uint8" for one in (dtype, b_dtype)]
    kind = "".join("s" if signed else "u" for signed in signs)
    return Numbers(f"{dtype} {b_dtype or dtype}", i8, i32, 4, i32, tiles.WORDS, signs[0], i8, signs[1],
                   tiles=f"b{kind}d")


def _whole_numbers(dtype, b_dtype, element, features):
    lanes, signs = features.lanes(4), {"signed": dtype != "uint8", "b_signed": b_dtype != "uint8"}
    name = f"{dtype} {b_dtype}"
    bytes_ = dots.of_bytes(features, **signs) if element is i8 else None
    if bytes_:
        return Numbers(name, element, i32, 4, i32, lanes, part=i8, flips=bytes_[1], dot=bytes_[0],
                       blocks=dots.blocks_of_bytes(features, **signs), **signs)
    shorts = dots.of_shorts(features) if element is i8 else None
    if shorts:
        return Numbers(name, element, i32, 2, i32, lanes, part=i16, dot=shorts, **signs)
    return Numbers(name, element, i32, 1, i32, lanes, **signs)


@dataclass(frozen=True)
class Epilogue:
    """Code that transforms finished accumulators before they are stored.

    `emit(b, sums, batch, row, column, place, mask, slots)` gets a vector of accumulators for one row and adjacent
    columns, the position as i64 values (of the first lane), the target address (or one per lane), a lane mask or None,
    and the epilogue's own slots as i64 values; it returns the vector to store, in the accumulator's type or a float if
    that is an integer type. `key` identifies the code completely; `slots` are as in Contraction.
    `touched(b, place, slots)` lists the addresses that it reads or writes for a target address.
    """

    key: str = ""
    slots: tuple = ()
    emit: Callable | None = field(default=None, compare=False, repr=False)
    touched: Callable | None = field(default=None, compare=False, repr=False)

    def values(self, b, args, first):
        """Its slots as i64 values, which a kernel's arguments hold from index `first` on."""
        return [b.load(i64, b.offset(args, 8 * (first + k))) for k in range(len(self.slots))]

    def fetch(self, b, place, slots):
        """Prefetch the memory for a target address: a tile's accumulation takes longer than the load."""
        b.prefetch(place, write=True)
        if self.touched is not None:
            for at in self.touched(b, place, slots):
                b.prefetch(at)


NO_EPILOGUE = Epilogue()


SMALL = tuple([("const", number) for number in range(256)])  # most slots of most plans, which share them


def constant_slot(number):
    """The slot of a constant, an int or a Table."""
    return SMALL[number] if type(number) is int and 0 <= number < len(SMALL) else ("const", number)


def written_slots(names, numbers, sources):
    """A kernel's slots in its order of names: operands and temporaries from `sources`, the rest constants."""
    return tuple([sources[name] if name in sources else constant_slot(numbers[name]) for name in names])


def table(offsets, keep):
    """The Table of some offsets; `keep`, a list of the plan, keeps it alive."""
    array = np.ascontiguousarray(offsets, np.int64)
    keep.append(array)
    return Table(array)


@dataclass(frozen=True)
class KernelCall:
    """One kernel call: `kernel(slots, begin, end, worker)` over `extent` units in chunks of `grain`.

    `fills`: a temporary that this call writes completely, as a function of its other slots alone, and that no other
      call writes.  A program omits the call if an equal one has run already.
    """

    kernel: int
    extent: int
    grain: int
    slots: tuple
    fills: str = ""

    def launch(self, place):
        """Return the Launch; ``place(name, offset)`` gives the value and the index of a slot, `offset` bytes into an
        operand or temporary."""
        return Launch(self.kernel, self.extent, self.grain,
                      tuple([(CONSTANT, slot[1]) if slot[0] == "const" else place(*slot[1:]) for slot in self.slots]))


@dataclass(frozen=True)
class Contraction:
    """A planned contraction: kernel calls in order, and their temporaries (name to bytes), 64-byte aligned.

    Slots are ("pointer", operand, byte offset), ("temp", name, byte offset) or ("const", number).
    Constants may be Tables in `keep`, so the caller that runs the steps must keep the plan alive.
    """

    steps: tuple
    temporaries: dict
    keep: tuple = ()  # tables that the slots point into

    def launches(self, values):
        """The launches of the kernel calls; `values` gives the value index of each operand and temporary."""
        return [step.launch(lambda name, offset: (values[name], offset)) for step in self.steps]
