"""Primitives that rearrange elements: reshape, permute, slice, pad, windows, cat."""
from __future__ import annotations

import builtins

import numpy as np

from ...core.dtypes import int64
from ...core.errors import ExpandError
from ...core.kinds import Join, P, View, sum_to
from ...core.meta import Meta, is_one, product, reshaped_strides, row_major, span
from .primitive import primitive


# --- views ------------------------------------------------------------------------------------------------------------
def view(name, kind, parameters):
    return primitive(name, kind, parameters)


def expanded(shape, wanted):
    """Return the sizes of a tensor of sizes ``shape`` expanded to ``wanted``, in which -1 keeps a size."""
    lead = len(wanted) - len(shape)
    if lead < 0:
        raise ExpandError(
            f"expand: the number of sizes provided ({len(wanted)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({len(shape)})")
    out = []
    for k, size in enumerate(wanted):
        own = shape[k - lead] if k >= lead else 1
        if type(size) is int and size == -1 and k >= lead:
            size = own
        if type(size) is int and size < 0:
            raise ExpandError(
                f"The expanded size of the tensor ({size}) isn't allowed in a leading, non-existing dimension {k}")
        if not is_one(own) and own != size:
            raise ExpandError(
                f"The expanded size of the tensor ({size}) must match the existing size ({own}) at non-singleton "
                f"dimension {k}.  "
                f"Target sizes: {list(wanted)}.  Tensor sizes: {list(shape)}",
                "sizes equal to the tensor's unless that is 1", "use repeat() for copies")
        out.append(size)
    return tuple(out)


def expand_alias(meta, shape):
    lead = len(shape) - len(meta.shape)
    strides = [0 if is_one(own) and not is_one(size) else stride
               for own, size, stride in zip(meta.shape, shape[lead:], meta.strides)]
    for k in reversed(range(lead)):  # a new dimension of size 1 has the stride that unsqueeze gives it
        strides.insert(0, shape[k + 1] * strides[0] if is_one(shape[k]) and meta.shape else 0)
    return tuple(strides), 0


def expand_source(index, source, shape):
    lead = len(index) - len(source)
    return tuple(0 if is_one(size) else i for i, size in zip(index[lead:], source)), None


expand = view("expand", View(
    lambda x, shape: np.broadcast_to(x, shape), lambda s, shape: tuple(shape), expand_source,
    lambda g, s, shape: sum_to(g, s), expand_alias), lambda x, shape: 0)


def inverse(dims):
    out = [0] * len(dims)
    for k, d in enumerate(dims):
        out[d] = k
    return tuple(out)


permute = view("permute", View(
    lambda x, dims: np.transpose(x, dims), lambda s, dims: tuple(s[d] for d in dims),
    lambda i, s, dims: (tuple(i[k] for k in inverse(dims)), None),
    lambda g, s, dims: P.permute(g, dims=inverse(dims)),
    lambda m, dims: (tuple(m.strides[d] for d in dims), 0)), lambda x, dims: 0)


def ravel(index, shape):
    """The position in row-major order."""
    at = 0
    for i, stride in zip(index, row_major(shape)):
        at = at + i * stride
    return at


def unravel(at, shape):
    """The index of a position in row-major order."""
    strides = row_major(shape)
    return tuple(0 if is_one(size) else (at // step if k == 0 else at // step % size)
                 for k, (size, step) in enumerate(zip(shape, strides)))


def reshape_alias(meta, shape):
    strides = reshaped_strides(meta.shape, meta.strides, shape)
    return strides and (strides, 0) if shape else ((), 0)


reshape = view("reshape", View(
    lambda x, shape: np.reshape(x, shape), lambda s, shape: tuple(shape),
    lambda i, s, shape: (unravel(ravel(i, shape), s), None),
    lambda g, s, shape: P.reshape(g, shape=tuple(s)), reshape_alias), lambda x, shape: 0)


def slice_numpy(x, starts, steps, shape):
    return x[tuple(np.s_[a:a + (n - 1) * t + 1:t] if n else np.s_[0:0] for a, t, n in zip(starts, steps, shape))]


def slice_transpose(g, s, starts, steps, shape):
    high = tuple(size - a - ((n - 1) * t + 1 if not (type(n) is int and n == 0) else 0)
                 for size, a, t, n in zip(s, starts, steps, shape))
    return P.pad(g, low=tuple(starts), high=high, inner=tuple(t - 1 for t in steps), value=0)


slice_ = view("slice", View(
    slice_numpy, lambda s, starts, steps, shape: tuple(shape),
    lambda i, s, starts, steps, shape: (tuple(a + k * t for k, a, t in zip(i, starts, steps)), None), slice_transpose,
    lambda m, starts, steps, shape: (tuple(st * t for st, t in zip(m.strides, steps)),
                                     sum_products(starts, m.strides))),
    lambda x, starts, steps, shape: 0)


def sum_products(a, b):
    total = 0
    for x, y in zip(a, b):
        total = total + x * y
    return total


def flip_source(index, shape, dims):
    return tuple(size - 1 - i if k in dims else i for k, (i, size) in enumerate(zip(index, shape))), None


flip = view("flip", View(lambda x, dims: np.flip(x, dims), lambda s, dims: tuple(s), flip_source,
                         lambda g, s, dims: P.flip(g, dims=dims)), lambda x, dims: 0)


def padded(size, low, high, inner):
    empty = type(size) is int and size == 0
    return low + high + (0 if empty else size + (size - 1) * inner)


def pad_numpy(x, low, high, inner, value):
    shape = tuple(padded(*parts) for parts in zip(x.shape, low, high, inner))
    out = np.full(shape, value, x.dtype)
    source, target = [], []
    for size, a, b, gap, n in zip(x.shape, low, high, inner, shape):
        step = gap + 1
        first = max(0, -(a // step))  # negative padding crops
        last = min(size, (n - a + step - 1) // step)
        last = max(first, last)
        source.append(np.s_[first:last])
        target.append(np.s_[a + first * step:a + (last - 1) * step + 1:step] if last > first else np.s_[0:0])
    out[tuple(target)] = x[tuple(source)]
    return out


def pad_source(index, shape, low, high, inner, value):
    from ...core import expr
    mask, out = None, []
    for i, size, a, b, gap in zip(index, shape, low, high, inner):
        at = i - a
        conditions = []
        if not (type(a) is int and a <= 0):
            conditions.append(expr.le(0, at))
        if gap:
            conditions.append(expr.eq(at % (gap + 1), 0))
            at = at // (gap + 1)
        if not (type(b) is int and b <= 0):
            conditions.append(expr.lt(at, size))
        for condition in conditions:
            mask = condition if mask is None else expr.logical_and(mask, condition)
        out.append(at)
    return tuple(out), mask


def pad_transpose(g, s, low, high, inner, value):
    if builtins.any(type(v) is int and v < 0 for v in (*low, *high)):  # cropped elements get nothing
        return P.pad(P.slice(g, starts=tuple(max(a, 0) for a in low), steps=tuple(k + 1 for k in inner),
                             shape=tuple(-(-(n - max(a, 0) - max(b, 0)) // (k + 1))
                                         for n, a, b, k in zip(g.shape, low, high, inner))),
                     low=tuple(-min(a, 0) for a in low), high=tuple(-min(b, 0) for b in high), inner=(0,) * len(low),
                     value=0)
    return P.slice(g, starts=tuple(low), steps=tuple(k + 1 for k in inner), shape=tuple(s))


pad = view("pad", View(
    pad_numpy, lambda s, low, high, inner, value: tuple(padded(*parts) for parts in zip(s, low, high, inner)),
    pad_source, pad_transpose),
    lambda x, low, high, inner, value: 0)


def strided_numpy(x, shape, strides, offset):
    flat = np.ascontiguousarray(x).reshape(-1)
    return np.lib.stride_tricks.as_strided(flat[offset:], shape,
                                           tuple(s * flat.itemsize
                                                 for s in strides)) if product(shape) else np.empty(shape, x.dtype)


class Strided(View):
    """A view of storage with any sizes and strides: the gradient also depends on the strides and offset of the
    input."""

    def vjp(self, op, g, y, x, shape, strides, offset):
        own = x._rush_meta.strides
        low, high = min(0, offset), max(offset + span(shape, strides), span(x.shape, own))
        memory = laid_down(g, shape, strides, offset - low, high - low)
        if overlapping(x.shape, own):  # elements with one address share the gradient
            ones = P.full(shape=tuple(x.shape), value=1, dtype=g.dtype)
            memory = P.div(memory, P.maximum(laid_down(ones, x.shape, own, -low, high - low), 1.0))
        return [P.strided(memory, shape=tuple(x.shape), strides=tuple(own), offset=-low)]


def locate(shape, strides, start):
    """Return the index in storage of each element of a tensor with these strides."""
    at = P.full(shape=(), value=start, dtype=int64)
    for size, stride in zip(shape, strides):
        at = P.add(P.reshape(at, shape=(*at.shape, 1)), P.mul(P.iota(size=size, dtype=int64), stride))
    return at


def laid_down(x, shape, strides, start, length):
    """Add up elements in a vector, each at its offset by these strides."""
    return put_flat(P.full(shape=(length,), value=0, dtype=x.dtype), locate(shape, strides, start), x, "add")


def put_flat(vector, at, values, combine):
    """Return ``vector`` with values put at these indices of it."""
    count = product(values.shape)
    return P.put(vector, P.reshape(at, shape=(count,)), P.reshape(values, shape=(count,)), dim=0, combine=combine)


def overlapping(shape, strides) -> bool:
    """True if several elements may have one address."""
    reach = 1
    for stride, size in sorted((stride, size) for size, stride in zip(shape, strides) if not is_one(size)):
        if stride < reach:
            return True
        reach += (size - 1) * stride
    return False


def strided_shared(m, shape, strides, offset):
    return tuple(strides), offset


def strided_source(index, s, shape, strides, offset):
    return unravel(sum_products(index, strides) + offset, s), None


# the element at `offset + sum(index * strides)` of x in row-major order; on memory: relative to x's first element
strided = view("strided", Strided(strided_numpy, lambda s, shape, strides, offset: tuple(shape), strided_source, None,
                                  strided_shared),
               lambda x, shape, strides, offset: 0)


class Within(View):
    """All elements; only those in one region of the storage have a gradient."""

    def vjp(self, op, g, y, x, shape, strides, offset):
        ones = P.full(shape=tuple(shape), value=1, dtype=g.dtype)
        memory = laid_down(ones, shape, strides, offset, max(span(x.shape, x._rush_meta.strides),
                                                             offset + span(shape, strides)))
        seen = P.strided(memory, shape=tuple(x.shape), strides=tuple(x._rush_meta.strides), offset=0)
        return [P.where(P.ne(seen, 0), g, 0)]


# x itself; the region is said as that of ``strided``
within = view("within", Within(lambda x, shape, strides, offset: x, lambda s, shape, strides, offset: tuple(s),
                               lambda index, s, shape, strides, offset: (index, None), None,
                               lambda x, shape, strides, offset: (tuple(x.strides), 0)),
              lambda x, shape, strides, offset: 0)


class Part(View):
    """A tensor of any dtype in a block of bytes."""

    def strided(self, op, x, shape, strides, dtype, offset):
        return Meta(shape, strides, dtype, x.device), offset // dtype.itemsize


def part_numpy(x, shape, strides, dtype, offset):
    return np.lib.stride_tricks.as_strided(x[offset:].view(np.uint8)[:(len(x) - offset) // dtype.itemsize
                                                                     * dtype.itemsize].view(dtype.numpy), shape,
                                           tuple(s * dtype.itemsize for s in strides))


part = view("part", Part(part_numpy, None, None, None), lambda x, shape, strides, dtype, offset: 0)


class Half(View):
    """The real (0) or imaginary (1) parts of interleaved complex values."""

    def strided(self, op, x, which):
        return Meta(tuple(x.shape), tuple(2 * s for s in x.strides), x.dtype.to_real(), x.device), which


half = view("half", Half(lambda x, which: x.imag if which else x.real, None, None, None), lambda x, which: 0)


class Meaning(View):
    """The same integers with another dtype, quantized or not."""

    def strided(self, op, x, dtype):
        return Meta(tuple(x.shape), tuple(x.strides), dtype, x.device), 0

    def vjp(self, op, g, y, x, dtype):
        return [None]


meaning = view("meaning", Meaning(lambda x, dtype: x, lambda s, dtype: tuple(s), lambda i, s, dtype: (i, None), None),
               lambda x, dtype: 0)


def diagonal_alias(meta, row, column, length):
    a, b = meta.strides[-2:]
    return (*meta.strides[:-2], a + b), row * a + column * b


def diagonal_transpose(g, s, row, column, length):
    at = P.iota(size=length, dtype=int64)
    position = P.add(P.mul(P.add(at, row), s[-1]), P.add(at, column))
    lead = tuple(s[:-2])
    flat = P.put(P.full(shape=(*lead, s[-2] * s[-1]), value=0, dtype=g.dtype), position, g, dim=len(lead),
                 combine="set")
    return P.reshape(flat, shape=tuple(s))


diagonal = view("diagonal", View(
    lambda x, row, column, length: np.diagonal(x[..., row:, column:], 0, -2, -1)[..., :length],
    lambda s, row, column, length: (*s[:-2], length),
    lambda i, s, row, column, length: ((*i[:-1], i[-1] + row, i[-1] + column), None), diagonal_transpose,
    diagonal_alias),
    lambda x, row, column, length: 0)


def unfold_shape(s, dim, size, step):
    if not s:
        return (size,)
    return (*s[:dim], (s[dim] - size) // step + 1, *s[dim + 1:], size)


def unfold_numpy(x, dim, size, step):
    if not x.ndim:
        return x.reshape(1)[:size]
    seen = np.lib.stride_tricks.sliding_window_view(x, size, dim)
    return seen[tuple(np.s_[::step] if k == dim else np.s_[:] for k in range(x.ndim))]


def unfold_transpose(g, s, dim, size, step):
    if not s:
        return P.reshape(g, shape=())
    count, last = g.shape[dim], len(g.shape) - 1
    if isinstance(size, int) and -(-size // step) <= MOST_SHIFTS:
        return unfold_by_shifts(g, s, dim, size, step, count)
    index = P.add(P.mul(P.reshape(P.iota(size=count, dtype=int64), shape=(count, 1)), step),
                  P.reshape(P.iota(size=size, dtype=int64), shape=(1, size)))
    moved = P.permute(g, dims=(*range(dim + 1), last, *range(dim + 1, last)))
    return P.put(P.full(shape=tuple(s), value=0, dtype=g.dtype), index, moved, dim=dim, combine="add")


MOST_SHIFTS = 16  # windows that overlap at one element, beyond which a scatter is better


def unfold_by_shifts(g, s, dim, size, step, count):
    """Add the windows' parts of ``step`` elements: equal parts of all windows are adjacent, later parts are shifted."""
    last, total = len(g.shape) - 1, None
    for start in range(0, size, step):
        width = min(step, size - start)
        part = P.slice(g, starts=(*(0,) * last, start), steps=(1,) * (last + 1), shape=(*g.shape[:last], width))
        part = P.pad(part, low=(0,) * (last + 1), high=(*(0,) * last, step - width), inner=(0,) * (last + 1), value=0)
        moved = P.permute(part, dims=(*range(dim + 1), last, *range(dim + 1, last)))
        flat = P.reshape(moved, shape=(*s[:dim], count * step, *s[dim + 1:]))
        placed = P.pad(flat, low=tuple(start if k == dim else 0 for k in range(last)),
                       high=tuple(n - count * step - start if k == dim else 0 for k, n in enumerate(s)),
                       inner=(0,) * last, value=0)
        total = placed if total is None else P.add(total, placed)
    return total


unfold = view("unfold", View(
    unfold_numpy, unfold_shape,
    lambda i, s, dim, size, step: ((*i[:dim], i[dim] * step + i[-1], *i[dim + 1:-1]), None) if s else ((), None),
    unfold_transpose,
    lambda m, dim, size, step: ((*m.strides[:dim], m.strides[dim] * step, *m.strides[dim + 1:], m.strides[dim])
                                if m.shape else (1,), 0)),
    lambda x, dim, size, step: 0)

cat = primitive("cat", Join(lambda tensors, dim: np.concatenate(tensors, dim)), lambda tensors, dim: 0)
