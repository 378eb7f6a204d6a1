"""The kinds of primitive.  A kind answers every concern for all of its operators: metadata, gradient, lowering.

Rules are called with the operator first.  ``meta`` works on Metas; ``vjp(op, g, y, *args, **params)`` works on values
and returns one cotangent (or None) for each argument.  ``numpy`` is the operator's meaning on arrays.
"""
from __future__ import annotations

import functools

from .devices import preferred
from .errors import IndexRangeError, JoinError
from .expr import lt
from .shape_env import ShapeEnv
from .meta import (Meta, broadcast, channels_last_strides, dense_strides, is_channels_last, is_one, nested_strides,
                   row_major, same, same_sizes)


MOST_KNOWN = 8192  # cached views of one kind, beyond which the cache is rebuilt


class Primitives:
    """Every primitive by name; filled by ``ops/prims``, so that rules may use primitives."""


P = Primitives()


def is_tensor(value) -> bool:
    """True if a rule's argument is a tensor-like value rather than a Python number."""
    return hasattr(value, "_rush_meta")


def shape_of(value):
    return value.shape if hasattr(value, "shape") else ()


def sum_to(x, shape):
    """Sums ``x`` down to ``shape``: the transpose of broadcasting."""
    lead = len(x.shape) - len(shape)
    dims = tuple(range(lead)) + tuple(
        k + lead for k, size in enumerate(shape) if is_one(size) and not is_one(x.shape[k + lead]))
    if dims:
        x = P.sum(x, dims)
    return P.reshape(x, tuple(shape)) if lead else x


def by_stride(shape, strides):
    """The dimensions from innermost to outermost as their strides tell, ties and broadcast ones as they come.  Of sizes
    that vary the order of strides is assumed where it is open, and that of sizes of equal strides."""
    order = list(reversed(range(len(shape))))
    for at in range(1, len(order)):
        for k in reversed(range(at)):
            further_in = compared(shape, strides, order[at], order[k])
            if further_in is False:
                break
            if further_in:
                order[k], order[at] = order[at], order[k]
                at = k
    return order


def compared(shape, strides, a, b) -> bool | None:
    """True if dimension a is further in than b; None if strides do not decide."""
    if is_zero(strides[a]) or is_zero(strides[b]):
        return None
    before = decided(lt(strides[a], strides[b]))
    if before is None or not before and decided(lt(strides[b], strides[a])):
        return False
    return True if before or decided(lt(shape[a], shape[b])) else None


def decided(condition) -> bool | None:
    """True if a condition on sizes holds; an undecided one becomes a guard; None if guards are not possible."""
    return bool(condition) if condition.op == "number" or ShapeEnv.present() else None


def is_zero(stride) -> bool:
    return type(stride) is int and stride == 0


def layout_like(shape, metas, alone=True):
    """Strides of an elementwise result: those of the first dense full-size input, else row-major. Together with numbers
    and tensors of other shapes (not ``alone``), dimensions of size 1 are ordered among the others, as in PyTorch."""
    for meta in metas:
        if same_sizes(meta.shape, shape):
            if not alone and not all(map(same, meta.strides, row_major(shape))):
                return tuple(nested_strides(shape, by_stride(meta.shape, meta.strides)))
            if meta.contiguous:
                return row_major(shape)
            if len(shape) == 4 and is_channels_last(meta):
                return channels_last_strides(shape)
            order = dense_strides(meta.shape, meta.strides)
            if order is None:
                order = by_stride(meta.shape, meta.strides)
            strides = nested_strides(shape, order)
            for k, size in enumerate(shape):
                if is_one(size):
                    strides[k] = meta.strides[k]
            return tuple(strides)
    return row_major(shape)


@functools.lru_cache(maxsize=MOST_KNOWN)
def layout_kept(meta):
    """Strides of a copy: those of the tensor if it is dense, whatever those of size-1 dimensions, else as of an
    elementwise result."""
    if meta.numel == 0 or dense_strides(meta.shape, meta.strides) is not None:
        return tuple(meta.strides)
    return layout_like(meta.shape, [meta])


class Kind:
    """The base class of kinds: the behavior common to all primitives of a kind."""

    name = "kind"
    lowers = True
    computes = False  # True if results have new values, which some dtypes do not support
    shares = False  # True if results may share memory with their argument: see ``strided``
    arity: int | None = None  # how many leading parameters are values; the rest are static (None: all are values)

    def meta(self, op, *args, **params):
        raise NotImplementedError(f"{op.name}: metadata")

    def vjp(self, op, g, y, *args, **params):
        raise NotImplementedError(f"the derivative of {op.name} is not implemented")

    def strided(self, op, meta, **params):
        """For those that share: the Meta of the result and its offset in elements, if it can share memory, else
        None."""
        return None


class Elementwise(Kind):
    """out[i] = scalar(x[i], y[i], ...), with broadcasting.

    Traits: ``numpy``; ``partials(y, *args)`` gives d out / d arg for each argument (None: no gradient; NotImplemented:
    an unimplemented one, which raises when it is needed; a Python 1 or -1 for plus or minus identity; a Python 0 for a
    function that is constant wherever it is smooth: zeros, also where an argument is infinite or NaN);
    ``result`` the dtype if it is not that of the arguments; ``passes``: out[i] is x[i], in another dtype at most;
    ``alike(args)`` those arguments that must have one dtype. In kernels it is the scalar operation of the same name.
    """

    name, computes, passes = "elementwise", True, False

    def __init__(self, numpy, partials=None, result=None, alike=tuple):
        self.numpy, self.partials, self.result, self.alike = numpy, partials, result, alike

    def meta(self, op, *args, **params):
        metas = [a for a in args if isinstance(a, Meta)]
        if len(metas) == 1 and not callable(self.result):
            only = metas[0]
            return only.like(tuple(only.shape), layout_like(only.shape, metas, len(args) == 1),
                             self.result or only.dtype)
        shape = broadcast(*(m.shape for m in metas))
        dtype = self.result(*args, **params) if callable(self.result) else self.result or metas[-1].dtype
        device = metas[0].device
        return Meta(shape, layout_like(shape, metas, len(metas) == len(args)
                                       and all(same_sizes(m.shape, metas[0].shape) for m in metas)), dtype, device)

    def vjp(self, op, g, y, *args, **params):
        partials = self.partials(y, *args, **params)
        return [None if p is None or not is_tensor(a) or not a.dtype.is_inexact else p if p is NotImplemented
                else sum_to(scale(g, p), a.shape)
                for a, p in zip(args, partials)]


def scale(g, partial):
    """g * partial, conjugated where complex; ±1 cost nothing or a negation, and 0 reads nothing."""
    if type(partial) is int and partial == 0:
        return P.full(shape=tuple(g.shape), value=0, dtype=g.dtype)
    if type(partial) is int and partial in (1, -1):
        return g if partial == 1 else P.neg(g)
    if is_tensor(partial) and partial.dtype.is_complex:
        partial = P.conj(partial)
    elif isinstance(partial, complex):
        partial = partial.conjugate()
    return P.mul(g, partial)


class Convert(Elementwise):
    """out[i] = x[i] as another dtype."""

    arity, computes, passes = 1, False, True

    def __init__(self, numpy):
        super().__init__(numpy)

    def meta(self, op, x, dtype):
        return x.like(tuple(x.shape), layout_kept(x), dtype)

    def vjp(self, op, g, y, x, dtype):
        if not x.dtype.is_inexact:
            return [None]
        if g.dtype.is_complex and not x.dtype.is_complex:
            g = P.real(g)
        return [P.convert(g, dtype=x.dtype)]


class View(Kind):
    """out[i] = x[source(i)], or ``value`` where the map leaves x.  Linear, so one ``transpose`` gives both gradients.

    Traits: ``shape(shape, **params)``; ``source(index, shape, **params)`` -> (index, mask or None);
    ``transpose(g, shape, **params)``; ``alias(meta, **params)`` -> (strides, offset) or None.
    """

    name = "view"
    arity, shares = 1, True

    def __init__(self, numpy, shape, source, transpose, alias=None):
        self.numpy, self.shape, self.source, self.transpose, self.alias = numpy, shape, source, transpose, alias
        self.known = {}  # cache of ``strided``: programs request the same views repeatedly

    def meta(self, op, x, **params):
        shared = self.strided(op, x, **params)
        return shared[0] if shared else x.like(self.shape(x.shape, **params))

    def strided(self, op, x, **params):
        if self.alias is None:
            return None
        if type(x.nbytes) is not int:  # comparing dynamic sizes adds guards
            return self.shown(x, params)
        key = x, tuple(params.items())
        try:
            return self.known[key]
        except KeyError:
            if len(self.known) >= MOST_KNOWN:
                self.known.clear()
            found = self.known[key] = self.shown(x, params)
            return found

    def shown(self, x, params):
        """The result of ``strided``."""
        found = self.alias(x, **params)
        return found and (x.like(self.shape(x.shape, **params), found[0]), found[1])

    def vjp(self, op, g, y, x, **params):
        return [self.transpose(g, x.shape, **params)]


class Recast(Kind):
    """The same memory viewed in another dtype: as complex numbers, or as their real and imaginary parts.

    Traits: ``numpy``; ``alias(meta)`` -> (Meta, offset in elements of its dtype); ``put(x, value)``: x after a value is
    assigned to the result; ``transpose(g)``.
    """

    name = "recast"
    arity, shares = 1, True

    def __init__(self, numpy, alias, put, transpose):
        self.numpy, self.alias, self.put, self.transpose = numpy, alias, put, transpose

    def meta(self, op, x):
        return (self.alias(x) or self.alias(Meta.of(x.shape, x.dtype, x.device)))[0]

    def strided(self, op, x):
        return self.alias(x)

    def vjp(self, op, g, y, x):
        return [self.transpose(g)]


class Bytes(Kind):
    """The same bytes as numbers of another dtype, ``old`` before: the last dimension is longer or shorter where items
    differ in size.  Without a gradient."""

    name = "bytes"
    arity, shares = 1, True

    def __init__(self, numpy):
        self.numpy = numpy

    def meta(self, op, x, old, dtype):
        return (self.strided(op, x, old, dtype) or self.strided(op, Meta.of(x.shape, old, x.device), old, dtype))[0]

    def strided(self, op, x, old, dtype):
        if x.turned:
            return None
        before, after = old.itemsize, dtype.itemsize
        shape, strides = list(x.shape), list(x.strides)
        if before != after:
            if strides[-1] != 1 or any(s * before % after for s in (*strides[:-1], shape[-1])):
                return None
            shape[-1], strides[:-1] = shape[-1] * before // after, [s * before // after for s in strides[:-1]]
        return Meta(tuple(shape), tuple(strides), dtype, x.device), 0

    def put(self, before, value):
        return P.bytes_as(value, old=value.dtype, dtype=before.dtype)

    def vjp(self, op, g, y, x, old, dtype):
        return [None]


class Turn(Recast):
    """The same memory, whose elements are conjugated or negated on every read and write.

    Traits: ``numpy``; ``bit``, that of ``Meta.turned``; ``compute(x)``: the same in memory of its own, its own inverse
    and transpose.
    """

    def __init__(self, numpy, bit, compute):
        super().__init__(numpy, lambda meta: (meta.turning(bit), 0), lambda x, value: compute(value), compute)
        self.bit, self.compute = bit, compute

    def meta(self, op, x):
        return x


class Join(Kind):
    """Several tensors concatenated along ``dim``, row by row; channels-last images stay so."""

    name = "join"
    arity = 1

    def __init__(self, numpy):
        self.numpy = numpy

    def meta(self, op, tensors, dim):
        first = tensors[0]
        total = 0
        for t in tensors:
            if t.dtype is not first.dtype or len(t.shape) != len(first.shape):
                raise JoinError(
                    f"tensors of {first.dtype} in {len(first.shape)} dimensions and of {t.dtype} in {len(t.shape)} "
                    "are joined")
            total = t.shape[dim] + total
        shape = tuple(first.shape[:dim]) + (total,) + tuple(first.shape[dim + 1:])
        images = len(shape) in (4, 5) and all([is_channels_last(t) and is_one(t.strides[1])
                                               and t.strides != row_major(t.shape) for t in tensors])
        strides = channels_last_strides(shape) if images else row_major(shape)
        return Meta(shape, strides, first.dtype, first.device)

    def vjp(self, op, g, y, tensors, dim):
        out, start = [], 0
        for t in tensors:
            starts = tuple(start if k == dim else 0 for k in range(len(t.shape)))
            out.append(P.slice(g, starts=starts, steps=(1,) * len(t.shape), shape=tuple(t.shape)))
            start = start + t.shape[dim]
        return [out]


class Reduce(Kind):
    """Combines over ``dims`` (ascending), which stay as size 1.  Traits: ``combine``, ``numpy``,
    ``gradient(g, y, x, dims)``."""

    name, computes = "reduce", True
    arity = 1

    def __init__(self, numpy, combine, gradient=None, result=None):
        self.numpy, self.combine, self.gradient, self.result = numpy, combine, gradient, result

    def meta(self, op, x, dims):
        shape = tuple(1 if k in dims else size for k, size in enumerate(x.shape))
        return Meta.of(shape, self.result or x.dtype, x.device)

    def vjp(self, op, g, y, x, dims):
        return [self.gradient(g, y, x, dims) if self.gradient else None]


def refuse_positions(x: Meta, index: Meta, dim: int):
    """IndexRangeError for positions in a dimension without elements: no kernel may run that would see them."""
    if x.shape and type(x.shape[dim]) is int and x.shape[dim] == 0 and type(index.numel) is int and index.numel:
        raise IndexRangeError("index is out of bounds for dimension with size 0",
                              "no positions, or a dimension that has elements")


class Gather(Kind):
    """Reads x at integer positions: ``take`` (index replaces a dimension) and ``gather`` (index along a dimension)."""

    name = "gather"
    arity = 2

    def __init__(self, numpy, shape, transpose):
        self.numpy, self.shape, self.transpose = numpy, shape, transpose

    def meta(self, op, x, index, dim):
        refuse_positions(x, index, dim)
        return x.like(self.shape(x.shape, index.shape, dim))

    def vjp(self, op, g, y, x, index, dim):
        return [self.transpose(g, x, index, dim), None]


class Scatter(Kind):
    """Writes ``source`` into a copy of x at integer positions; ``combine`` is set, add, mul, max or min."""

    name = "scatter"
    arity = 3

    def __init__(self, numpy, read):
        self.numpy, self.read = numpy, read

    def meta(self, op, x, index, source, dim, combine):
        refuse_positions(x, index, dim)
        return x.like(tuple(x.shape))

    def vjp(self, op, g, y, x, index, source, dim, combine):
        if combine == "add":
            return [g, None, self.read(g, index, dim)]
        if combine == "set":
            kept = op(g, index, P.full(shape=tuple(source.shape), value=0, dtype=g.dtype), dim=dim, combine="set")
            return [kept, None, self.read(g, index, dim)]
        if combine in ("max", "min"):
            hit_x = P.convert(P.eq(x, y), dtype=g.dtype)
            hit_s = P.convert(P.eq(source, self.read(y, index, dim)), dtype=g.dtype)
            count = op(hit_x, index, hit_s, dim=dim, combine="add")
            share = P.div(g, count)
            return [P.mul(share, hit_x), None, P.mul(self.read(share, index, dim), hit_s)]
        return self.product_vjp(op, g, x, index, source, dim)

    def product_vjp(self, op, g, x, index, source, dim):
        """Of ``mul``: each element's share is the product of the others.  A single zero leaves it standing for that
        zero alone; of two zeros each has the other as a factor, which matters to second derivatives."""
        zero_x, zero_s = P.eq(x, 0), P.eq(source, 0)
        rest = op(P.where(zero_x, 1, x), index, P.where(zero_s, 1, source), dim=dim, combine="mul")
        zeros = op(P.convert(zero_x, dtype=g.dtype), index, P.convert(zero_s, dtype=g.dtype), dim=dim, combine="add")
        vanishing = op(P.where(zero_x, x, 0), index, P.where(zero_s, source, 0), dim=dim, combine="add")
        others = P.mul(g, P.where(P.eq(zeros, 0), rest, P.where(P.eq(zeros, 1), P.mul(rest, vanishing), 0)))
        single, double = P.mul(g, P.where(P.eq(zeros, 1), rest, 0)), P.mul(g, P.where(P.eq(zeros, 2), rest, 0))

        def shares(value, zero, read):
            full = P.where(zero, 1, value)
            return P.where(zero, P.add(read(single), P.mul(read(double), P.sub(read(vanishing), value))),
                           P.div(read(others), full))

        return [shares(x, zero_x, lambda v: v), None, shares(source, zero_s, lambda v: self.read(v, index, dim))]


class Create(Kind):
    """No tensor inputs: constants, counting, the random stream.  Traits: ``numpy``, ``describe(**params)`` -> (shape,
    dtype)."""

    name = "create"
    arity = 0

    def __init__(self, numpy, describe):
        self.numpy, self.describe = numpy, describe

    def meta(self, op, *args, **params):
        shape, dtype = self.describe(**params)
        return Meta.of(shape, dtype, preferred())

    def vjp(self, op, g, y, *args, **params):
        return [None] * len(args)


class Contract(Kind):
    """Sums of products over shared dimensions: matmul, convolution. Traits: ``numpy``, ``describe``, ``gradient``, and
    ``result``, the dtype if it is not that of the first argument."""

    name, computes = "contract", True
    arity = 2

    def __init__(self, numpy, describe, gradient, result=None):
        self.numpy, self.describe, self.gradient, self.result = numpy, describe, gradient, result

    def meta(self, op, *args, **params):
        return args[0].like(self.describe(*args, **params), dtype=self.result)

    def vjp(self, op, g, y, *args, **params):
        return self.gradient(g, y, *args, **params)


class Foreign(Kind):
    """Computed by a library on whole arrays (LAPACK, FFT, sorting): it answers every concern itself.

    Traits: ``numpy``; ``describe(*metas, **params)`` -> Meta, tuple of Metas, or None where sizes depend on data;
    ``gradient(g, y, *args, **params)``.
    """

    name = "foreign"
    lowers = False

    def __init__(self, numpy, describe, gradient=None):
        self.numpy, self.describe, self.gradient = numpy, describe, gradient

    def meta(self, op, *args, **params):
        return self.describe(*args, **params)

    def vjp(self, op, g, y, *args, **params):
        if self.gradient is None:
            raise NotImplementedError(f"the derivative of {op.name} is not implemented")
        return self.gradient(g, y, *args, **params)


class Exchanged(Foreign):
    """Collectives and messages. Traits as of Foreign, and ``there(where, source, target, **params)``: run it in the
    memory of a device, for (address, Meta) of the input and the result; True if it did. ``begin(x, **params)`` starts
    it on an array, which must stay unchanged until the collective is complete, and returns its handle, a number."""

    def __init__(self, numpy, describe, gradient, there, begin):
        super().__init__(numpy, describe, gradient)
        self.there, self.begin = there, begin


class Scan(Foreign):
    """out[i] = all elements up to i along ``dim`` combined.  Traits as of Foreign, and ``combine``: add, mul, max or
    min."""

    name = "scan"
    lowers = True

    def __init__(self, numpy, combine, describe, gradient):
        super().__init__(numpy, describe, gradient)
        self.combine = combine
