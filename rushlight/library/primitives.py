"""What the primitives of our bodies are in ``aten``: a function for each, of the primitive's parameters by name."""
from __future__ import annotations

from .._ops import ops
from .._src.core.dtypes import int64
from .._src.core.interpret import active
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
    """What says that a sum is of the dtype of what is summed: PyTorch's are of int64 where that is a whole number."""
    return {} if x.dtype.is_inexact or x.dtype is int64 else {"dtype": x.dtype}


def reshape(x, shape):
    return aten.view(x, list(shape)) if tuple(shape) != tuple(x.shape) else x


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
    """The real (0) or the imaginary (1) numbers as they lie in memory."""
    x = aten._conj(x) if is_conjugated(x) else x
    return aten.select.int(aten.view_as_real(x), x.dim(), which)


def is_conjugated(x) -> bool:
    """Whether a tensor shows the conjugates of what lies in memory."""
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
