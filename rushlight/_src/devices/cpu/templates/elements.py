"""Elements of an operand that a template packs: loaded from memory, or computed from several tensors.

An operand has lanes (the rows of A, the columns of B, channels) and k.  Its elements are loaded a vector at a time,
across lanes or along k.  Distances are in bytes, as i64 values.
"""

from dataclasses import dataclass, field
from typing import Callable

from ..llvm import scalars
from ..llvm.values import constant
from ..llvm.scalars import STORED
from ..llvm.types import i64, vector

LINE = 64  # bytes of a cache line
# the next element in one direction: the same one again, the adjacent one, or one farther off
SAME, NEXT, APART = "same", "next", "apart"


def distance(stride) -> str:
    """Classify a stride in elements.

    Example:
        >>> distance(0), distance(1), distance(7)
        ('same', 'next', 'apart')
    """
    return SAME if stride == 0 else NEXT if stride == 1 else APART


def join(b, numbers, pieces):
    """Words made of one vector of elements for each position in a word, lowest first."""
    bits = 32 // numbers.per_word
    total = None
    for k, piece in enumerate(pieces):
        part = b.cast("zext", parts(b, numbers, piece), numbers.words)
        total = part if total is None else b.or_(total, b.shl(part, k * bits))
    return total


def parts(b, numbers, elements):
    """Elements as the parts of words: 8-bit integers widened if the instruction needs it, 16-bit floats as bits."""
    if elements.type.element.is_float:
        return b.bitcast(elements, elements.type.with_element(numbers.part))
    return b.convert(elements, numbers.part, numbers.signed)


class Elements:
    """Words of an operand.  ``vector(lane, k, along, count, lanes)`` gives `lanes` elements in one direction, from
    (lane, k) on: the first `count` of them, the others zero; all if `count` is None."""

    def __init__(self, b, numbers):
        self.b, self.numbers = b, numbers

    @property
    def itemsize(self):
        """Bytes of memory that an element along k takes."""
        return self.numbers.element.bytes

    def across(self, lane, k, count, k_left):
        """Words of adjacent lanes.  A word of several elements takes only those of the `k_left` elements along k; all
        if that is None."""
        b, numbers = self.b, self.numbers
        pieces = [self.vector(lane, k, False, count, numbers.lanes)]
        if numbers.per_word == 1:
            return b.convert(pieces[0], numbers.word, numbers.signed)
        for j in range(1, numbers.per_word):
            there = count if k_left is None else b.select(b.compare(">", k_left, j), constant(i64, numbers.lanes)
                                                          if count is None else count, 0)
            pieces.append(self.vector(lane, b.add(k, j), False, there, numbers.lanes))
        return join(b, numbers, pieces)

    def along(self, lane, k, left):
        """Words of elements contiguous along k, zero from `left` elements on."""
        b, numbers = self.b, self.numbers
        found = self.vector(lane, k, True, left, numbers.lanes * numbers.per_word)
        if numbers.per_word == 1:
            return b.convert(found, numbers.word, numbers.signed)
        return b.bitcast(parts(b, numbers, found), numbers.words)


class Strided(Elements):
    """Elements in memory: lanes are `lane` bytes apart, elements along k `k` bytes (None: contiguous), matmuls that are
    summed `sum` bytes."""

    def __init__(self, b, numbers, pointer, lane=None, k=None, sum=None):
        super().__init__(b, numbers)
        own = constant(i64, numbers.element.bytes)
        self.pointer, self.steps, self.sum = pointer, (lane, k), constant(i64, 0) if sum is None else sum
        self.strides = tuple(own if step is None else step for step in self.steps)

    def at(self, lane, k):
        """The address of an element."""
        b = self.b
        return b.offset(b.offset(self.pointer, b.mul(k, self.strides[1])), b.mul(lane, self.strides[0]))

    def moved(self, lane, k, product=0):
        """The same from another lane and k on, in another of the matmuls that are summed."""
        return Strided(self.b, self.numbers, self.b.offset(self.at(lane, k), self.b.mul(product, self.sum)),
                       *self.steps, self.sum)

    def line(self, lane, k, product=0):
        """One lane, from an element on."""
        return self.moved(lane, k, product)

    def vector(self, lane, k, along, count, lanes):
        mask = None if count is None else self.b.lane_mask(count, lanes)
        return load_apart(self.b, self.numbers.element, self.at(lane, k), self.steps[along], lanes, mask)

    def fetch(self, lane, k):
        """Prefetch the memory of an element."""
        self.b.prefetch(self.at(lane, k), locality=2)


class Listed(Strided):
    """Elements in memory that are contiguous along k; a table has the byte offset of each lane."""

    def __init__(self, b, numbers, pointer, table, sum=None):
        super().__init__(b, numbers, pointer, sum=sum)
        self.table = table

    def at(self, lane, k):
        b = self.b
        return b.offset(b.offset(self.pointer, b.mul(k, self.strides[1])), b.load(i64, b.offset(self.table, lane, i64)))

    def moved(self, lane, k, product=0):
        b = self.b
        pointer = b.offset(b.offset(self.pointer, b.mul(k, self.strides[1])), b.mul(product, self.sum))
        return Listed(b, self.numbers, pointer, b.offset(self.table, lane, i64), self.sum)

    def line(self, lane, k, product=0):
        """One lane, from an element on: its offset is looked up once."""
        return Strided(self.b, self.numbers, self.b.offset(self.at(lane, k), self.b.mul(product, self.sum)))


@dataclass(frozen=True)
class Prologue:
    """A computation of an operand's elements: `parts` are the dtypes of the tensors, each with strides of its own, and
    `emit(b, values)` computes a vector from vectors of the parts.  `key` identifies the code completely."""

    key: str
    dtype: object
    parts: tuple
    emit: Callable = field(compare=False, repr=False)


@dataclass(frozen=True)
class PrologueLayout:
    """A Prologue with the strides of its parts: for each a (distance across lanes, distance along k)."""

    prologue: Prologue
    distances: tuple

    @property
    def key(self):
        """Key that identifies the code completely."""
        return f"{self.prologue.key} {self.distances}"


class Computed(Elements):
    """Elements computed by a PrologueLayout's prologue; `places` holds a Strided for each part."""

    def __init__(self, b, numbers, layout, places):
        super().__init__(b, numbers)
        self.layout, self.places = layout, places

    @property
    def itemsize(self):
        return max([dtype.itemsize for dtype, (_, k) in zip(self.layout.prologue.parts, self.layout.distances)
                    if k != SAME], default=LINE)

    def moved(self, lane, k, product=0):
        """The same from another lane and k on."""
        return Computed(self.b, self.numbers, self.layout, [place.moved(lane, k, product) for place in self.places])

    line = moved

    def vector(self, lane, k, along, count, lanes):
        return scalars.to_memory(self.b, self.value(lane, k, along, count, lanes), self.layout.prologue.dtype)

    def along(self, lane, k, left):
        if self.numbers.word.is_float:  # as computed: a word has room for more digits than an element
            return self.b.convert(self.value(lane, k, True, left, self.numbers.lanes), self.numbers.word)
        return super().along(lane, k, left)

    def value(self, lane, k, along, count, lanes):
        """A vector of elements before they are rounded."""
        b, prologue = self.b, self.layout.prologue
        mask = None if count is None else b.lane_mask(count, lanes)
        if count is not None:  # one element for all lanes is read even if no lane wants it
            there = b.compare(">", count, 0)
            lane, k = (b.select(there, place, constant(i64, 0)) for place in (lane, k))
        values = []
        for place, distances, dtype in zip(self.places, self.layout.distances, prologue.parts):
            at, stored = place.at(lane, k), STORED[dtype.name]
            if distances[along] == SAME:
                values.append(b.splat(scalars.from_memory(b, b.load(stored, at), dtype), lanes))
            else:
                loaded = load_apart(b, stored, at, None if distances[along] == NEXT else place.strides[along], lanes,
                                    mask)
                values.append(scalars.from_memory(b, loaded, dtype))
        value = prologue.emit(b, values)
        if mask is not None:
            value = b.select(mask, value, 0.0 if value.type.is_float else 0)
        return value

    def fetch(self, lane, k):
        """Prefetch the memory of an element's parts."""
        for place, distances in zip(self.places, self.layout.distances):
            if SAME not in distances:
                place.fetch(lane, k)


def load_apart(b, element, pointer, stride, lanes, mask):
    """A vector of elements from an address on, contiguous or `stride` bytes apart."""
    kind = vector(element, lanes)
    if stride is None:
        return b.load(kind, pointer, mask=mask)
    return b.gather(kind, b.offset(pointer, b.mul(b.lane_indices(lanes), b.splat(stride, lanes))), mask)
