"""Meta: the metadata of a tensor. Interned, so "same metadata" is ``is``."""
from __future__ import annotations

import dataclasses
import itertools
import sys
import threading
import operator

from .devices import cpu, device
from .dtypes import ALL, NAMED, dtype
from .errors import BroadcastError, NegativeSizeError
from .expr import Expr
from .nodes import evaluate
from .forking import guarded


def size_given(size, place: int):
    """A size as an int, or unchanged if it is symbolic; ``place`` is its position in the shape. Raises TypeError for
    anything that is not an integer."""
    if isinstance(size, (int, Expr)) or hasattr(type(size), "symbol"):  # as ragged sizes say of themselves
        return size
    try:
        return operator.index(size)
    except TypeError:
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {place} is '{type(size).__name__}')") from None


class Size(tuple):
    """A shape; sizes are ints, or Exprs while a program is traced for every size."""

    __slots__ = ()

    def __new__(cls, sizes=()):
        made = tuple.__new__(cls, sizes)
        for size in made:
            if type(size) is not int:
                return tuple.__new__(cls, map(size_given, made, itertools.count()))
        return made

    def numel(self):
        return product(self)

    def __repr__(self):
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, key):
        item = tuple.__getitem__(self, key)
        return Size(item) if isinstance(key, slice) else item

    def __add__(self, other):
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other):
        return Size(tuple(other) + tuple(self))

    def __mul__(self, times):
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self):
        return Size, (tuple(self),)


def product(sizes):
    """The product of sizes (1 of none)."""
    out = 1
    for size in sizes:
        out = out * size
    return out


def row_major(shape) -> tuple:
    """Strides, in elements, of a contiguous tensor of this shape."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step = step * (1 if type(size) is int and size == 0 else size)
    return tuple(reversed(strides))


def nested_strides(shape, order) -> list:
    """Strides of dense memory whose dimensions are nested in ``order``, innermost first; 0 for those that it leaves
    out."""
    strides, step = [0] * len(shape), 1
    for dim in order:
        strides[dim] = step
        step = step * shape[dim]
    return strides


UNSTORED = frozenset(NAMED)
LEAST_KNOWN = 4096  # metas that are always kept
CONJUGATED, NEGATED = 1, 2  # bits of ``Meta.turned``


def held(table: dict, key) -> int:
    """How often a value is referred to, as seen from here."""
    return sys.getrefcount(table[key])


def dropped(table: dict):
    """Remove the values that only the table refers to. A value that another thread takes out meanwhile stays."""
    alone = held({None: object()}, None)
    for key in list(table):
        if held(table, key) <= alone:
            apart = {None: table.pop(key)}
            if held(apart, None) > alone:
                table[key] = apart[None]


class Meta:
    """Shape, strides (in elements), dtype and device of a tensor. Equal metas are one object.

    ``turned``: the conj and neg bits, CONJUGATED and NEGATED, that relate elements to the stored values (0: they are
    equal).
    """

    __slots__ = ("shape", "strides", "dtype", "device", "numel", "nbytes", "contiguous", "itemsize", "pattern",
                 "turned")
    known: dict = {}
    most = LEAST_KNOWN
    lock = guarded("metas", threading.RLock())

    def __new__(cls, shape, strides, dtype: dtype, device: device = cpu, turned=0):
        key = (shape, strides, dtype, device, turned) if turned else (shape, strides, dtype, device)
        return cls.known.get(key) or cls.entered(key, cls.made(*key))  # visible to other threads once it is complete

    @classmethod
    def entered(cls, key, made) -> "Meta":
        """The value interned under a key; unreferenced ones are removed when there are twice as many as after the last
        removal."""
        with cls.lock:
            if len(cls.known) >= cls.most:
                dropped(cls.known)
                cls.most = max(LEAST_KNOWN, 2 * len(cls.known))
            return cls.known.setdefault(key, made)

    @classmethod
    def made(cls, shape, strides, dtype, device, turned=0):
        """A meta that is not yet known.  Sizes and strides are ints of no other kind, or Exprs: ``True == 1``."""
        if dtype in UNSTORED:
            raise NotImplementedError(
                f"{dtype} exists here only as a name: no tensor can have it. Use one of "
                f"{', '.join(d.name for d in ALL)}.")
        found = object.__new__(cls)
        found.dtype, found.device, found.itemsize, found.pattern, found.turned = (dtype, device, dtype.itemsize, None,
                                                                                  turned)
        extent = extent_of(shape, strides)
        if extent is not None:
            found.shape, found.strides, (found.numel, count, found.contiguous) = Size(shape), strides, extent
            found.nbytes = count * dtype.itemsize
            return found
        shape, strides = tuple(map(whole, shape)), tuple(map(whole, strides))
        check_sizes(shape)
        check_countable(shape, strides, dtype.itemsize)
        found.shape, found.strides = Size(shape), strides
        found.numel = product(shape)
        found.contiguous = is_contiguous(shape, strides)
        found.nbytes = span(shape, strides) * dtype.itemsize
        return found

    @classmethod
    def of(cls, shape, dtype, device=cpu) -> "Meta":
        """The contiguous meta of this shape."""
        shape = tuple(shape)
        return cls(shape, row_major(shape), dtype, device)

    ndim = property(lambda self: len(self.shape))

    def like(self, shape=None, strides=None, dtype=None) -> "Meta":
        """This meta with some fields replaced; new shapes are contiguous unless strides are given."""
        if shape is None:
            return Meta(tuple(self.shape), strides or self.strides, dtype or self.dtype, self.device, self.turned)
        shape = tuple(shape)
        return Meta(shape, row_major(shape) if strides is None else tuple(strides), dtype or self.dtype, self.device,
                    self.turned)

    def on(self, where: device) -> "Meta":
        """This meta on another device."""
        return self if self.device is where else Meta(tuple(self.shape), self.strides, self.dtype, where, self.turned)

    def turning(self, bits: int) -> "Meta":
        """The same memory with these bits of ``turned`` flipped."""
        return Meta(tuple(self.shape), self.strides, self.dtype, self.device, self.turned ^ bits) if bits else self

    plain = property(lambda self: self.turning(self.turned), doc="The same memory as it is.")

    def __repr__(self):
        layout = "" if self.contiguous else f" strides {list(self.strides)}"
        return f"{self.dtype.label}[{', '.join(map(str, self.shape))}]{layout}{TURNED[self.turned]}"

    def __reduce__(self):
        return Meta, (tuple(self.shape), self.strides, self.dtype, self.device, self.turned)


TURNED = ("", " conjugated", " negated", " conjugated negated")


def whole(size):
    """A size as a plain int, or as the Expr that it is."""
    return size if type(size) is int or type(size) is Expr else operator.index(size)


PLAIN = frozenset((int, float, str, bool, type(None)))


def settled(value, sizes: dict):
    """A value with every symbolic size replaced by its int in ``sizes``, recursively.

    >>> from rushlight._src.core.expr import size
    >>> from rushlight._src.core.dtypes import float32
    >>> n = size("n")
    >>> settled((Meta.of((n, n * 2), float32), n // 2), {n: 6})
    (float32[6, 12], 3)
    """
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is Expr:
        return evaluate(value, sizes)
    if kind is Meta:
        return value.like(settled(tuple(value.shape), sizes), settled(value.strides, sizes))
    if kind in (tuple, list, Size):
        return kind([settled(v, sizes) for v in value])
    if kind is dict:
        return {k: settled(v, sizes) for k, v in value.items()}
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(value, **{f.name: settled(getattr(value, f.name), sizes)
                                             for f in dataclasses.fields(value) if f.init})
    return value


FAR = 1 << 48
MOST = (1 << 63) - 1  # elements, bytes or steps that 64 bits count


def extent_of(shape, strides):
    """(number of elements, their span, True if contiguous) of a shape of plain ints far below the 64-bit limit; None
    for others, which need the full checks."""
    count, last, in_order = 1, 1, True
    for k in range(len(shape) - 1, -1, -1):
        size, stride = shape[k], strides[k]
        if type(size) is not int or type(stride) is not int or not 0 < size <= FAR > stride:
            return None
        if size != 1:
            if stride != count:
                in_order = False
            count *= size
            last += (size - 1) * stride
    return (count, last, in_order) if count <= FAR and last <= FAR else None


def is_beyond(number) -> bool:
    return type(number) is int and number > MOST


def check_sizes(shape):
    """RuntimeError for a size below 0: programs would write outside of the memory of such a result."""
    if any(type(size) is int and size < 0 for size in shape):
        raise NegativeSizeError(f"Trying to create tensor with negative dimension: {list(shape)}", "sizes of 0 or more")


def check_countable(shape, strides, itemsize: int):
    """Raise RuntimeError if the number of elements, their bytes or a stride exceeds 64 bits."""
    count = product(shape)
    if type(count) is int and (count > MOST or count and is_beyond(span(shape, strides) * itemsize)):
        raise RuntimeError(
            f"numel: integer multiplication overflow: sizes {list(shape)} are more than 64 bits can count"
            if count > MOST else
            f"Storage size calculation overflowed with sizes={list(shape)}")
    if any(map(is_beyond, strides)):
        raise RuntimeError(f"Stride calculation overflowed: sizes {list(shape)} need strides {list(strides)}")


def is_one(size) -> bool:
    return type(size) is int and size == 1


def is_contiguous(shape, strides) -> bool:
    """True if elements are dense in row-major order; strides of size-1 dimensions do not matter."""
    return any(type(size) is int and size == 0 for size in shape) or in_order(shape, strides)


def in_order(shape, strides) -> bool:
    """True if each stride is the product of the inner sizes."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if is_one(size):
            continue
        if not same(stride, expected):
            return False
        expected = expected * size
    return True


def is_channels_last(meta: Meta) -> bool:
    """True if the second dimension is innermost and the rest in order."""
    order = (0, *range(2, len(meta.shape)), 1)
    return in_order([meta.shape[k] for k in order], [meta.strides[k] for k in order])


def suggests_channels_last(meta: Meta) -> bool:
    """True if the strides of images, which may have gaps, increase from the second dimension over the last ones to the
    first: results for them are channels-last."""
    shape, strides, least = meta.shape, meta.strides, 0
    if len(shape) not in (4, 5) or not all(type(n) is int for n in (*shape, *strides)):
        return len(shape) in (4, 5) and not meta.contiguous and is_channels_last(meta)
    for d in (1, *reversed(range(2, len(shape))), 0):
        if not shape[d] or not strides[d] or strides[d] < least or d == 0 and least == strides[1]:
            return False
        least = strides[d] * shape[d]
    return True


def channels_last_strides(shape) -> tuple:
    """Strides of memory with the second dimension innermost and the rest in order."""
    return tuple(nested_strides(shape, (1, *reversed(range(2, len(shape))), 0)))


def same(a, b) -> bool:
    """Equality of sizes by identity of their normal form (never a guard)."""
    return a is b or (type(a) is int and type(b) is int and a == b)


def span(shape, strides):
    """Elements from the first to the last one touched, both included."""
    last = 1
    for size, stride in zip(shape, strides):
        if type(size) is int and size == 0:
            return 0
        last = last + (size - 1) * stride
    return last


def dense_strides(shape, strides):
    """The dimensions from innermost to outermost if they tile memory without gaps or overlap, else None."""
    left = [k for k, size in enumerate(shape) if not is_one(size)]
    order, expected = [], 1
    while left:
        k = next((k for k in reversed(left) if same(strides[k], expected)), None)
        if k is None:
            return None
        left.remove(k)
        order.append(k)
        expected = expected * shape[k]
    return order


def has_gaps(meta) -> bool:
    """True if the storage between a tensor's first and last element may hold elements that the tensor does not show."""
    reach = 1
    for stride, size in sorted((stride, size) for size, stride in zip(meta.shape, meta.strides) if not is_one(size)):
        if stride > reach:
            return bool(meta.numel)
        reach += (size - 1) * stride
    return False


def same_sizes(a, b) -> bool:
    """True if two shapes are certainly equal (never adds a guard)."""
    return len(a) == len(b) and all(map(same, a, b))


def broadcast(*shapes) -> tuple:
    """The shape that all of these expand to.

    >>> broadcast((3, 1), (4,))
    (3, 4)
    """
    rank = max(map(len, shapes), default=0)
    out = [1] * rank
    for shape in shapes:
        lead = rank - len(shape)
        for k, size in enumerate(shape):
            at = lead + k
            if is_one(out[at]):
                out[at] = size
            elif not is_one(size) and not (size is out[at] or size == out[at]):
                raise BroadcastError(
                    f"The size of tensor a ({out[at]}) must match the size of tensor b ({size}) at non-singleton "
                    "dimension "
                    f"{at}: shapes {', '.join(str(list(s)) for s in shapes)} do not broadcast",
                    "sizes that are equal or 1, compared from the last dimension",
                    "insert dimensions of size 1 with unsqueeze(), or transpose")
    return tuple(out)


def reshaped_strides(shape, strides, new) -> tuple | None:
    """Strides of a view of the same elements in another shape, or None where only a copy will do."""
    if same_sizes(shape, new):
        return tuple(strides)
    if any(type(s) is int and s == 0 for s in shape):
        return row_major(new)
    if any(type(s) is not int for s in new) and all(map(same, strides, row_major(shape))):
        return row_major(new)  # sizes that are computed need not divide one by one
    groups, k = [], len(shape) - 1  # maximal runs of dimensions that step through memory as one
    while k >= 0:
        if is_one(shape[k]):
            k -= 1
            continue
        size, step = shape[k], strides[k]
        while k > 0 and (is_one(shape[k - 1]) or same(strides[k - 1], size * step)):
            size, k = size * shape[k - 1], k - 1
        groups.append((size, step))
        k -= 1
    last = [(1, strides[-1])] if shape and is_one(shape[-1]) else []  # what is of size 1 at the end steps as it did
    out, left = [], last + groups
    room, step = left.pop(0) if left else (1, 1)
    for size in reversed(new):
        if is_one(size):
            out.append(step)
            continue
        if is_one(room):
            if not left:
                return None
            room, step = left.pop(0)
        quotient = divide(room, size)
        if quotient is None:
            return None
        out.append(step)
        room, step = quotient, step * size
    return tuple(reversed(out)) if is_one(room) and not left else None


def divide(a, b):
    """a / b where it is exact, else None."""
    if type(a) is int and type(b) is int:
        return a // b if b and a % b == 0 else None
    if a is b:
        return 1
    quotient = a // b
    return quotient if same(quotient * b, a) else None
