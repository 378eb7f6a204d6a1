"""Primitives in terms of ``aten``: a function for each, of the primitive's parameters by name."""
from __future__ import annotations

import math

from .._ops import ops
from .._src.core.convert import contiguous_format
from .._src.core.dtypes import int64
from .._src.core.interpret import active
from .._src.core.meta import reshaped_strides
from .._src.core.native import Tensor

NAMES = {"min": "amin", "max": "amax", "all": "every", "any": "some"}


class Called:
    """``Called.mul.Tensor(x, y)``: that overload, as the program that is being written takes it."""

    class Packet:
        def __init__(self, packet):
            self.packet = packet

        def __call__(self, *args, **kwargs):
            return self.default(*args, **kwargs)

        def __getattr__(self, label):
            overload = getattr(self.packet, label)

            def call(*args, **kwargs):
                writer = next((one for one in reversed(active()) if hasattr(one, "overload")), None)
                return overload(*args, **kwargs) if writer is None else writer.overload(overload, args, kwargs)

            return call

    def __getattr__(self, name):
        return Called.Packet(getattr(ops.aten, name))


aten = Called()


def as_given(x) -> dict:
    """Return the dtype argument that keeps a sum's dtype: PyTorch sums integers as int64."""
    return {} if x.dtype.is_inexact or x.dtype is int64 else {"dtype": x.dtype}


def reshape(x, shape):
    if tuple(shape) == tuple(x.shape):
        return x
    one_after_another = reshaped_strides(x._rush_meta.shape, x._rush_meta.strides, tuple(shape)) is None
    return aten.view(aten.clone(x, memory_format=contiguous_format) if one_after_another else x, list(shape))


def clamped(bound):
    """A primitive of two values as an operator of one and a number; others are as they are."""
    def run(x, y):
        numbers = [v for v in (x, y) if not isinstance(v, Tensor)]
        return aten.clamp(x if numbers[0] is y else y, **{bound: numbers[0]}) if numbers else NotImplemented

    return run


maximum, minimum = clamped("min"), clamped("max")


def after_number(packet):
    """A primitive whose first value is a number; others are as they are."""
    def run(x, y):
        return NotImplemented if isinstance(x, Tensor) else getattr(aten, packet).Tensor(x, y)

    return run


sub, div = after_number("sub"), after_number("div")


def matmul(a, b):
    """One product for each index of the dimensions before the last two."""
    batch, sizes = tuple(a.shape[:-2]), (a.shape[-2], a.shape[-1], b.shape[-1])
    if not batch:
        return aten.mm(a, b)
    count = math.prod(batch)
    made = aten.bmm(reshape(a, (count, *sizes[:2])), reshape(b, (count, *sizes[1:])))
    return reshape(made, (*batch, sizes[0], sizes[2]))


def expand(x, shape):
    return aten.expand(x, list(shape)) if tuple(shape) != tuple(x.shape) else x


def permute(x, dims):
    return aten.permute(x, list(dims)) if tuple(dims) != tuple(range(x.dim())) else x


def flip(x, dims):
    return aten.flip(x, list(dims))


def convert(x, dtype):
    return x if x.dtype is dtype else aten._to_copy(x, dtype=dtype)


def copy(x):
    return aten.clone(x)


def sum(x, dims):
    return aten.sum.dim_IntList(x, list(dims), True, **as_given(x))


def amax(x, dims):
    return aten.amax(x, list(dims), True)


def amin(x, dims):
    return aten.amin(x, list(dims), True)


def prod(x, dims):
    for dim in dims:
        x = aten.prod.dim_int(x, dim, True, **as_given(x))
    return x


def every(x, dims):
    return aten.logical_not(aten.any.dims(aten.logical_not(x), list(dims), True))


def some(x, dims):
    return aten.any.dims(x, list(dims), True)


def full(shape, value, dtype):
    return aten.full(list(shape), value, dtype=dtype)


def iota(size, dtype):
    return aten.arange.start_step(0, size, dtype=dtype)


def slice(x, starts, steps, shape):
    """One slice for each dimension that is not shown whole."""
    for dim, (start, step, count) in enumerate(zip(starts, steps, shape)):
        if start == 0 and step == 1 and count == x.shape[dim]:
            continue
        if step < 0:
            x, start, step = aten.flip(x, [dim]), x.shape[dim] - 1 - start, -step
        x = aten.slice.Tensor(x, dim, start, start + (count - 1) * step + 1, step)
    return x


def cat(tensors, dim):
    return aten.cat(list(tensors), dim)


def cumsum(x, dim):
    return aten.cumsum(x, dim, **as_given(x))


def gather(x, index, dim):
    return aten.gather(x, dim, aten._to_copy(index, dtype=int64) if index.dtype is not int64 else index)


def where(condition, x, y):
    like = next((v for v in (x, y) if isinstance(v, Tensor)), None)
    dtype = None if like is None else like.dtype
    return aten.where.self(condition, *(v if isinstance(v, Tensor) else number(v, dtype, condition.device)
                                        for v in (x, y)))


def number(value, dtype, device=None):
    """A number as a tensor."""
    named = {"dtype": dtype, "device": device}
    return aten.scalar_tensor(value, **{k: v for k, v in named.items() if v is not None})


def pad(x, low, high, inner, value):
    """NotImplemented where there is padding between elements, too."""
    if any(inner):
        return NotImplemented
    return aten.constant_pad_nd(x, [n for pair in reversed(list(zip(low, high))) for n in pair], value)


def rsqrt(x):
    return aten.rsqrt(x)


def real(x):
    return part(x, 0)


def imag(x):
    return aten._neg_view(part(x, 1)) if is_conjugated(x) else part(x, 1)


def part(x, which):
    """Return the stored real (0) or imaginary (1) values."""
    x = aten._conj(x) if is_conjugated(x) else x
    return aten.select.int(aten.view_as_real(x), x.dim(), which)


def is_conjugated(x) -> bool:
    """True if the conj bit of a tensor is set."""
    return [step[0] for step in getattr(x, "steps", ())].count(ops.aten._conj.default) % 2 == 1


def view_as_real(x):
    return aten.view_as_real(x)


def view_as_complex(x):
    return aten.view_as_complex(x)


def bytes_as(x, old, dtype):
    return aten.view.dtype(x, dtype)


def conjugated(x):
    return aten._conj(x)


def negated(x):
    return aten._neg_view(x)


def conj(x):
    return aten.conj_physical(x)


def unfold(x, dim, size, step):
    return aten.unfold(x, dim, size, step)


def argmax(x, dims):
    return aten.argmax(x, dims[0], True) if len(dims) == 1 else NotImplemented


def argmin(x, dims):
    return aten.argmin(x, dims[0], True) if len(dims) == 1 else NotImplemented


# --- places of an index -----------------------------------------------------------------------------------------------
REDUCED = {"mul": "prod", "max": "amax", "min": "amin"}


def at(index, dim) -> list:
    """The indices of ``aten.index`` for one dimension."""
    return [*[None] * dim, convert(index, int64)]


def take(x, index, dim):
    return aten.index.Tensor(x, at(index, dim))


def put(x, index, source, dim, combine):
    if combine not in ("add", "set"):
        return NotImplemented
    return aten.index_put(x, at(index, dim), source, combine == "add")


def scatter(x, index, source, dim, combine):
    index = convert(index, int64)
    if combine == "add":
        return aten.scatter_add(x, dim, index, source)
    if combine == "set":
        return aten.scatter.src(x, dim, index, source)
    return aten.scatter_reduce.two(x, dim, index, source, REDUCED[combine])


# --- convolutions and their gradients ---------------------------------------------------------------------------------
def conv(x, w, stride, padding, dilation, groups):
    if not all(type(n) is int for n in padding):
        return NotImplemented
    return aten.convolution(x, w, None, list(stride), list(padding), list(dilation), False, [0] * len(stride), groups)


def conv_input(g, w, shape, stride, padding, dilation, groups):
    """The transposed convolution whose result has as many elements as the convolution's input had."""
    if not all(type(n) is int for n in padding):
        return NotImplemented
    made = [(n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, k, s, p, d in zip(g.shape[2:], w.shape[2:], stride, padding, dilation)]
    extra = [n - found for n, found in zip(shape[2:], made)]
    return aten.convolution(g, w, None, list(stride), list(padding), list(dilation), True, extra, groups)


def conv_weight(g, x, shape, stride, padding, dilation, groups):
    """A convolution of the input with the gradient, in which examples and channels change places."""
    if not all(type(n) is int for n in padding):
        return NotImplemented
    n, c, o, rank = x.shape[0], shape[1], shape[0], len(stride)
    space = tuple(range(3, 3 + rank))
    x = permute(reshape(x, (n, groups, c, *x.shape[2:])), (2, 1, 0, *space))
    g = permute(reshape(g, (n, groups, o // groups, *g.shape[2:])), (1, 2, 0, *space))
    found = aten.convolution(reshape(x, (c, groups * n, *x.shape[3:])), reshape(g, (o, n, *g.shape[3:])), None,
                             list(dilation), list(padding), list(stride), False, [0] * rank, groups)
    found = slice(permute(found, (1, 0, *range(2, 2 + rank))), (0,) * (2 + rank), (1,) * (2 + rank), shape)
    return aten.clone(found, memory_format=contiguous_format)
