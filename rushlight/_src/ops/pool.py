"""Pooling and rearrangement of images."""
from __future__ import annotations

import math

from ..core.convert import channels_last
from ..core.dtypes import int64, type_name, uint8
from ..core.expectations import expect_elements
from ..core.expr import Expr
from ..core.kinds import P
from ..core.meta import is_one, product, suggests_channels_last
from ..core.op import OPS, op, rule, sample
from .conv import all_windows, lying_as, rebatched, spread, unbatched
from .elementwise import truncated_quotient
from .promotion import downcast, upcast

F = "nn.functional"


def pooled_size(size, kernel, stride, padding, dilation, ceil_mode):
    """Number of windows along a dimension."""
    span = dilation * (kernel - 1) + 1
    count = (size + 2 * padding - span + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + padding:  # the last window must start inside
        count -= 1
    return count


def geometry(name, x, rank, kernel_size, stride, padding, dilation, ceil_mode):
    kernel = spread(kernel_size, rank, "kernel_size")
    stride = kernel if stride is None or stride == () or stride == [] else spread(stride, rank, "stride")
    padding, dilation = spread(padding, rank, "padding"), spread(dilation, rank, "dilation")
    if any(s <= 0 for s in stride):
        raise RuntimeError("stride should not be zero")
    if any(d <= 0 for d in dilation):
        raise RuntimeError(f"dilation must be greater than zero, but got {list(dilation)}")
    if any(k <= 0 for k in kernel):
        raise RuntimeError(f"kernel size should be greater than zero, but got {list(kernel)}")
    if any(p < 0 or p > (d * (k - 1) + 1) // 2 for p, k, d in zip(padding, kernel, dilation)):
        raise RuntimeError(
            f"pad should be at most half of effective kernel size, but got pad={max(padding)}, "
            f"kernel_size={list(kernel)} and dilation={list(dilation)}")
    if any(s == 0 for s in x.shape[1:]):
        raise RuntimeError(
            f"{name}: Expected input's non-batch dimensions to have positive length, but got input of size "
            f"{list(x.shape)}")
    out = tuple(pooled_size(n, k, s, p, d, ceil_mode)
                for n, k, s, p, d in zip(x.shape[2:], kernel, stride, padding, dilation))
    if any(n <= 0 for n in out):
        raise RuntimeError(
            f"Given input size: {list(x.shape[1:])}. Calculated output size: {list(out)}. Output size is too small")
    high = tuple(max(0, (n - 1) * s + d * (k - 1) + 1 - size - p)
                 for n, s, d, k, size, p in zip(out, stride, dilation, kernel, x.shape[2:], padding))
    return kernel, stride, padding, dilation, out, high


def windows_of(x, value, kernel, stride, padding, dilation, out, high):
    """[n, c, *space] -> [n, c, *out, kernel elements]."""
    rank = len(kernel)
    x = P.pad(x, low=(0, 0, *padding), high=(0, 0, *high), inner=(0,) * (rank + 2), value=value)
    seen = all_windows(x, kernel, stride, dilation)
    seen = P.slice(seen, starts=(0,) * len(seen.shape), steps=(1,) * len(seen.shape),
                   shape=(*x.shape[:2], *out, *kernel)) if tuple(seen.shape[2:2 + rank]) != out else seen
    return P.reshape(seen, shape=(*x.shape[:2], *out, product(kernel)))


def last_of_none(seen, best):
    """Index of the largest element of a window; of several NaN, the last."""
    at = len(seen.shape) - 1
    number = P.where(P.ne(seen, seen), P.add(P.iota(size=seen.shape[at], dtype=int64), 1), 0)
    last = P.amax(number, (at,))
    return P.where(P.gt(last, 0), P.sub(last, 1), best)


def precise(rank: int) -> str | None:
    """Dtype of pooling under autocast: float32 for volumes."""
    return "float32" if rank == 3 else None


def max_pool_of(rank):
    name = f"max_pool{rank}d"

    def core_body(input, kernel_size, stride, padding, dilation, ceil_mode, exact=False):
        x, single = unbatched(input, rank, name)
        kernel, stride, padding, dilation, out, high = geometry(name, x, rank, kernel_size, stride, padding, dilation,
                                                                ceil_mode)
        lowest = -math.inf if x.dtype.is_floating_point else -(1 << (8 * x.dtype.itemsize
                                                                     - 1)) if x.dtype.is_signed else 0
        seen = windows_of(x, lowest, kernel, stride, padding, dilation, out, high)
        best = P.argmax(seen, (rank + 2,))  # which element of its window
        if exact and x.dtype.is_floating_point:
            best = last_of_none(seen, best)
        if product(kernel) <= 256:  # then the backward saves one byte of it
            best = P.convert(P.convert(best, dtype=uint8), dtype=int64)
        at = None
        inner = best
        for k in range(rank):
            place = P.remainder(P.floor_divide(inner, product(kernel[k + 1:])),
                                kernel[k]) if product(kernel[k + 1:]) != 1 else P.remainder(inner, kernel[k])
            start = P.reshape(P.add(P.mul(P.iota(size=out[k], dtype=int64), stride[k]), -padding[k]),
                              shape=(1, 1) + tuple(out[k] if j == k else 1 for j in range(rank)) + (1,))
            position = P.add(P.mul(place, dilation[k]), start)
            if padding[k]:  # without elements above -inf, the first one outside of the padding
                position = P.where(P.lt(position, 0), P.remainder(position, dilation[k]), position)
            at = position if at is None else P.add(P.mul(at, x.shape[2 + k]), position)
        shape = (*x.shape[:2], *out)
        # a result, so that the backward reads it instead of finding it again
        at = rebatched(lying_as(x, P.reshape(at, shape=shape)), single)
        return rebatched(lying_as(x, P.reshape(P.amax(seen, (rank + 2,)), shape=shape)), single), at

    core_body.__name__ = f"_max_pool{rank}d"
    core_body.__doc__ = "The maximum of every window, and its position in the flattened plane."
    core = op(core_body, method=False, second="zeros")

    @rule(core)
    def vjp(g, y, input, kernel_size, stride, padding, dilation, ceil_mode, exact=False):
        """The gradient of a window goes entirely to the first of its largest elements."""
        planes, places, source = tuple(input.shape[:-rank]), y[1], upcast(g[0])
        flat = P.full(shape=(*planes, product(input.shape[-rank:])), value=0, dtype=source.dtype)
        lined = (*planes, product(places.shape[-rank:]))
        found = P.scatter(flat, P.reshape(places, shape=lined), P.reshape(source, shape=lined), dim=len(planes),
                          combine="add")
        return [downcast(P.reshape(found, shape=tuple(input.shape)), input)]

    def body(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        values, indices = core(input, kernel_size, stride, padding, dilation, bool(ceil_mode), bool(return_indices))
        return (values, indices) if return_indices else values

    body.__name__, body.__doc__ = name, f"The maximum of every window of {rank} dimension(s)."
    made = op(body, composite=True, namespace=F, autocast=precise(rank))

    def with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True):
        return core(input, kernel_size, stride, padding, dilation, bool(ceil_mode), True)

    with_indices.__name__, with_indices.__doc__ = name + "_with_indices", core_body.__doc__
    op(with_indices, composite=True, namespace=F)
    OPS[name] = made
    return made


max_pool1d, max_pool2d, max_pool3d = map(max_pool_of, (1, 2, 3))


def avg_pool_of(rank):
    name = f"avg_pool{rank}d"

    def body(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
             divisor_override=None):
        x, single = unbatched(input, rank, name)
        if divisor_override == 0:
            raise RuntimeError("divisor must be not zero")
        kernel, stride, padding, dilation, out, high = geometry(name, x, rank, kernel_size, stride, padding, 1,
                                                                ceil_mode)
        w = upcast(x)
        total = P.sum(windows_of(w, 0, kernel, stride, padding, dilation, out, high), (rank + 2,))
        total = P.reshape(total, shape=(*x.shape[:2], *out))
        if divisor_override is not None:
            count = divisor_override
        else:
            count = None
            for k in range(rank):
                start = P.add(P.mul(P.iota(size=out[k], dtype=int64), stride[k]), -padding[k])
                stop = P.minimum(P.add(start, kernel[k]), x.shape[2 + k] + padding[k])
                if not count_include_pad:
                    start, stop = P.maximum(start, 0), P.minimum(stop, x.shape[2 + k])
                length = P.reshape(P.sub(stop, start), shape=tuple(out[k] if j == k else 1 for j in range(rank)))
                count = length if count is None else P.mul(count, length)
            count = P.convert(count, dtype=w.dtype)
        found = downcast(P.div(total, count) if w.dtype.is_inexact else truncated_quotient(total, count), x)
        return rebatched(lying_as(x, found) if rank == 2 else found, single)

    body.__name__, body.__doc__ = name, f"The mean of every window of {rank} dimension(s)."
    return op(body, namespace=F, second="zeros", autocast=precise(rank))


avg_pool1d, avg_pool2d, avg_pool3d = map(avg_pool_of, (1, 2, 3))


def adaptive_sizes(name, output_size, space):
    """The number of parts of each dimension; None keeps its size."""
    sizes = (output_size,) * len(space) if isinstance(output_size, (int, Expr)) or output_size is None else tuple(
        output_size)
    if len(sizes) == 1:
        sizes = sizes * len(space)
    if len(sizes) != len(space):
        raise RuntimeError(f"{name}: 'output_size' should contain {len(space)} int(s), but got {list(sizes)}")
    sizes = tuple(n if s is None else s for s, n in zip(sizes, space))
    if any(s < 0 for s in sizes):
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0, but received {list(sizes)}")
    return sizes


def check_adaptive(name, rank, input):
    shape = input.shape
    if not input.dtype.is_floating_point:
        raise RuntimeError(f'"{name}" not implemented for \'{type_name(input.dtype)}\'')
    if rank > 1 and len(shape) < rank + 1:
        raise ValueError(
            f"{name}: Input dimension should be at least {rank + 1}, but got {list(shape)}: add a channel dimension")
    if any(s == 0 for s in shape[1:]):
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            f"{list(shape)}")


def equal_parts(x, sizes):
    """Mean of equal parts along the last dimensions."""
    lead, rank = x.shape[:-len(sizes)], len(sizes)
    parts = [n // count for n, count in zip(x.shape[-rank:], sizes)]
    grouped = P.reshape(x, shape=(*lead, *(n for pair in zip(sizes, parts) for n in pair)))
    total = P.sum(grouped, tuple(len(lead) + 2 * k + 1 for k in range(rank)))
    return P.reshape(P.div(total, product(parts)), shape=(*lead, *sizes))


def adaptive_average_of(rank):
    name = f"adaptive_avg_pool{rank}d"

    def body(input, output_size):
        check_adaptive(name, rank, input)
        x, single = unbatched(input, rank, name)
        sizes = adaptive_sizes(name, output_size, x.shape[2:])
        out = upcast(x)
        if all(count and n % count == 0 for n, count in zip(x.shape[2:], sizes)):
            out = equal_parts(out, sizes)
        else:
            for k, count in enumerate(sizes):
                out = adaptive_along(out, 2 + k, count)
        found = downcast(out, x)
        return rebatched(lying_as(x, found) if rank == 2 or all(is_one(s) for s in sizes) else found, single)

    body.__name__, body.__doc__ = name, "The mean of nearly equal parts, as many as asked for."
    return op(body, namespace=F, second="zeros", autocast=precise(rank))


def adaptive_along(x, at, count):
    """The mean of each of ``count`` parts along one dimension."""
    start, stop = parts_of(x.shape[at], count)
    length = P.reshape(P.convert(P.sub(stop, start), dtype=x.dtype),
                       shape=(*(1,) * at, count, *(1,) * (len(x.shape) - at - 1)))
    return P.div(part_sums(x, at, count), length)


def parts_of(size, count):
    """Starts and ends of ``count`` nearly equal parts, as tensors.  Adjacent parts overlap by one if ``count`` does not
    divide ``size``."""
    k = P.iota(size=count, dtype=int64)
    return P.floor_divide(P.mul(k, size), count), P.floor_divide(P.add(P.mul(P.add(k, 1), size), count - 1), count)


def longest_part(size, count):
    """Maximum length of ``count`` nearly equal parts: a part has its share of ``size``, rounded down, and overlaps one
    more element at each end that is not a multiple of the share."""
    if count == 0:
        return 0
    share, rest = size // count, size % count
    return share if rest == 0 else share + 1 if count % rest == 0 else share + 2


@op(method=False, name="_part_sums", samples=(sample((2, 7), 1, 3), sample((5, 2), 0, 8)))
def part_sums(input, dim, count):
    """The sum of each of ``count`` nearly equal parts of a dimension, which may overlap by one."""
    size = input.shape[dim]
    most, (start, stop) = longest_part(size, count), parts_of(size, count)
    shape = (count, most)
    place = P.add(P.reshape(start, shape=(count, 1)), P.reshape(P.iota(size=most, dtype=int64), shape=(1, most)))
    inside = P.lt(place, P.reshape(stop, shape=(count, 1)))
    seen = P.take(input, P.minimum(place, size - 1), dim=dim)
    inside = P.reshape(inside, shape=(*(1,) * dim, *shape, *(1,) * (len(input.shape) - dim - 1)))
    total = P.sum(P.where(inside, seen, 0), (dim + 1,))
    return P.reshape(total, shape=(*input.shape[:dim], count, *input.shape[dim + 1:]))


@rule(part_sums)
def vjp(g, y, input, dim, count):  # noqa: F811
    """Gradient: an element is in adjacent parts, so that it is ``part_sums`` with the sizes exchanged."""
    return [part_sums(g, dim, input.shape[dim])]


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(adaptive_average_of, (1, 2, 3))


def adaptive_max_of(rank):
    name = f"adaptive_max_pool{rank}d"

    def body(input, output_size, return_indices=False):
        check_adaptive(name, rank, input)
        single = input.dim() == rank + 1
        if input.dim() not in (rank + 1, rank + 2):
            raise RuntimeError(f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got: {list(input.shape)}")
        x = input.unsqueeze(0) if single else input
        space = tuple(x.shape[2:])
        sizes = adaptive_sizes(name, output_size, space)
        if 0 in sizes:
            values, places = x.new_empty((*x.shape[:2], *sizes)), x.new_empty((*x.shape[:2], *sizes), dtype=int64)
        else:
            parts, at = x, OPS["zeros"](1, dtype=int64)
            # an element past the end of a part is its last one again
            for k, (size, count) in enumerate(zip(space, sizes)):
                start, stop = parts_of(size, count)
                place = OPS["minimum"](start[:, None] + OPS["arange"](longest_part(size, count)), stop[:, None] - 1)
                parts = parts.index_select(2 + 2 * k, place.reshape(-1)).unflatten(2 + 2 * k, tuple(place.shape))
                at = at[..., None, None] * size + place
            parts = parts.permute(0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)).flatten(2 + rank)
            values, which = parts.max(-1)
            if return_indices and x.dtype.is_floating_point:
                numbers = OPS["where"](parts.isnan(), OPS["arange"](1, parts.size(-1) + 1), 0).amax(-1)
                which = OPS["where"](numbers > 0, numbers - 1, which)
            at = at.squeeze(0).permute(*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)).flatten(rank)
            places = at.expand(*x.shape[:2], *at.shape).gather(-1, which[..., None]).squeeze(-1)
        if rank == 2 and suggests_channels_last(x._rush_meta):
            values, places = (v.contiguous(memory_format=channels_last) for v in (values, places))
        out = [v.squeeze(0) if single else v for v in (values, places)]
        return tuple(out) if return_indices else out[0]

    body.__name__, body.__doc__ = name, "The maximum of nearly equal parts, as many as asked for."
    made = op(body, composite=True, planned=True, namespace=F, second="zeros", autocast=precise(rank))
    op(lambda input, output_size, return_indices=True: made(input, output_size, True), name=name + "_with_indices",
       composite=True, namespace=F, doc="The same, and where each maximum was found.")
    return made


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = map(adaptive_max_of, (1, 2, 3))


def lp_of(rank):
    def body(input, norm_type, kernel_size, stride=None, ceil_mode=False):
        kernel = spread(kernel_size, rank, "kernel_size")
        mean = OPS[f"{F}.avg_pool{rank}d"](input.pow(norm_type), kernel, stride, 0, ceil_mode)
        return (OPS["sign"](mean) * mean.abs().relu() * product(kernel)).pow(1.0 / norm_type)
    body.__name__, body.__doc__ = f"lp_pool{rank}d", "The p-norm of every window."
    return op(body, composite=True, namespace=F)


lp_pool1d, lp_pool2d, lp_pool3d = map(lp_of, (1, 2, 3))


def space_of(pooled, kernel_size, stride, padding, wanted) -> tuple:
    """Input sizes that pool to the sizes of ``pooled``.  ValueError if ``wanted`` sizes would pool to others."""
    rank = len(pooled)
    kernel = spread(kernel_size, rank, "kernel_size")
    stride = kernel if stride is None else spread(stride, rank, "stride")
    padding = spread(padding, rank, "padding")
    usual = tuple((n - 1) * s - 2 * p + k for n, s, p, k in zip(pooled, stride, padding, kernel))
    space = usual if wanted is None else tuple(wanted)[-rank:]
    for d, (size, own, s) in enumerate(zip(space, usual, stride)):
        if not own - s < size < own + s:
            raise ValueError(f'invalid output_size "{list(space)}" (dim {d} must be between {own - s} and {own + s})')
    return space


def unpool_of(rank):
    def body(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        if tuple(indices.shape) != tuple(input.shape):
            raise RuntimeError(
                f"max_unpool{rank}d: Expected shape of indices to be same as that of the input tensor "
                f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}")
        expect_elements(input.shape[1:], lambda: RuntimeError(
            f"max_unpool{rank}d: Expected input to have non-zero size for non-batch dimensions, but got "
            f"{list(input.shape)}"))
        space = (tuple(output_size) if kernel_size == ()  # any size, as of PyTorch's inner operator
                 else space_of(input.shape[-rank:], kernel_size, stride, padding, output_size))
        lead = tuple(input.shape[:-rank])
        count = product(input.shape[-rank:])
        flat, at = input.reshape(*lead, count), indices.reshape(*lead, count)
        if at.numel() and (int(at.max()) >= product(space) or int(at.min()) < 0):
            raise RuntimeError(
                f"found an invalid max index: {int(at.max())} (output volumes are of size {'x'.join(map(str, space))}")
        out = input.new_zeros((*lead, product(space))).scatter(-1, at, flat)
        out = out.reshape(*lead, *space)
        turned = rank == 2 and input.dim() == 4 and suggests_channels_last(input._rush_meta)
        return out.contiguous(memory_format=channels_last) if turned else out
    body.__name__, body.__doc__ = (f"max_unpool{rank}d",
                                   "Each maximum put back where max pooling found it, zeros elsewhere.")
    return op(body, composite=True, namespace=F)


max_unpool1d, max_unpool2d, max_unpool3d = map(unpool_of, (1, 2, 3))


# --- rearranging ------------------------------------------------------------------------------------------------------
def shuffled(name, top=True):
    def enter(body):
        body.__name__ = name
        made = op(body, namespace=F)
        OPS[name] = made
        return made
    return enter


@shuffled("pixel_shuffle")
def pixel_shuffle(input, upscale_factor):
    """[*, c r r, h, w] -> [*, c, h r, w r]."""
    if len(input.shape) < 3 or upscale_factor <= 0:
        raise RuntimeError(
            "pixel_shuffle expects a positive upscale_factor and input to have at least 3 dimensions, but got "
            f"{upscale_factor} and {len(input.shape)} dimension(s)")
    *lead, c, h, w = input.shape
    r = upscale_factor
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={c} is not divisible by {r * r}")
    n = len(lead)
    x = P.reshape(input, shape=(*lead, c // (r * r), r, r, h, w))
    x = P.permute(x, dims=(*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return P.reshape(x, shape=(*lead, c // (r * r), h * r, w * r))


@shuffled("pixel_unshuffle")
def pixel_unshuffle(input, downscale_factor):
    """[*, c, h r, w r] -> [*, c r r, h, w]."""
    r = downscale_factor
    if len(input.shape) < 3 or r <= 0:
        raise RuntimeError(
            "pixel_unshuffle expects a positive downscale_factor and input to have at least 3 dimensions, but got "
            f"{r} and {len(input.shape)} dimension(s)")
    *lead, c, h, w = input.shape
    if h % r or w % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but got {h} and {w} with "
            f"factor {r}")
    n = len(lead)
    x = P.reshape(input, shape=(*lead, c, h // r, r, w // r, r))
    x = P.permute(x, dims=(*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return P.reshape(x, shape=(*lead, c * r * r, h // r, w // r))


@shuffled("channel_shuffle")
def channel_shuffle(input, groups):
    """Channels interleaved between groups."""
    n, c, *space = input.shape
    if groups <= 0 or c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    x = P.reshape(input, shape=(n, groups, c // groups, *space))
    x = P.permute(x, dims=(0, 2, 1, *range(3, 3 + len(space))))
    return P.reshape(x, shape=(n, c, *space))
