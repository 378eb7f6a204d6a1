"""NumPy arrays within compiled code: fake arrays that NumPy's own functions are called with, and the operators they
record."""
from __future__ import annotations

import functools
import operator
import types

import numpy as np

from ... import fft, linalg
from ..core.convert import contiguous_format
from ..core.dtypes import FROM_NUMPY, int64
from ..core.exchange import from_numpy, tensor, to_numpy
from ..core.expr import Expr
from ..core.native import Tensor
from ..core.op import OPS
from .errors import Break
from .reals import Real

api = types.SimpleNamespace(**{name: op for name, op in OPS.items() if name.isidentifier()})

class FakeArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A fake array.  ``scalar``: a NumPy scalar, with its dtype.

    NumPy's functions and operators call its ``__array_ufunc__`` and ``__array_function__``: NumPy resolves the dtypes
    of a computation, and tensor operators compute it.
    """

    def __init__(self, fake, scalar=False):
        self.fake, self.scalar, self.value = fake, scalar, None  # value: its captured Value

    dtype = property(lambda self: self.fake.dtype.numpy)
    shape = property(lambda self: tuple(self.fake.shape))
    ndim = property(lambda self: self.fake.dim())
    size = property(lambda self: self.fake.numel())
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.size * self.itemsize)
    T = property(lambda self: np.transpose(self))
    real = property(lambda self: np.real(self))
    imag = property(lambda self: np.imag(self))

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        compute = UFUNCS.get(ufunc)
        if compute is None or method != "__call__" or options:
            raise Break("RB001", f"numpy.{ufunc.__name__}()")
        result = FakeArray(*elementwise(ufunc, compute, inputs))
        return result if out is None else self.stored(*out, result)

    def stored(self, target, result):
        """Implement ``out=`` and ``+=``: the result is stored in the target."""
        if not isinstance(target, FakeArray) or target.scalar and target is not self or not np.can_cast(result.dtype,
                                                                                                        target.dtype,
                                                                                                        "same_kind"):
            raise Break("RB001", "out= of a function of NumPy")
        if target.scalar:  # a number: += makes another one
            return result
        target.fake.copy_(result.fake)
        return target

    def __array_function__(self, function, types, args, kwargs):
        compute = FUNCTIONS.get(function)
        if compute is None:
            raise Break("RB001", f"numpy.{function.__name__}()")
        return closed(compute(*opened(args), **opened(kwargs)), function in NUMBERS)

    def __array__(self, *args, **kwargs):
        raise Break("RB015", "the data of an array are accessed")

    def __getitem__(self, index):
        index = opened(index)
        parts = index if isinstance(index, tuple) else (index,)
        if any(isinstance(p, slice) and isinstance(p.step, int) and p.step < 0 for p in parts):
            raise Break("RB001", "a slice of an array that runs backwards")
        found = self.fake[index]
        one = not found.dim() and not any(p is ... or p is None or isinstance(p, (slice, Tensor)) for p in parts)
        return FakeArray(found.clone() if one else found, one)

    def __setitem__(self, index, value):
        if self.scalar:
            raise Break("RB007", "item assignment to a number of NumPy")
        if isinstance(value, FakeArray):
            root = self.fake.recorder.root
            apart = root(value.fake.node) is not root(self.fake.node)
            value = as_dtype(value.fake if apart else value.fake.clone(), self.dtype)  # NumPy reads all of it first
        self.fake[opened(index)] = value

    def __getattr__(self, name):
        if name in METHODS:
            return functools.partial(METHODS[name], self)
        if hasattr(np.ndarray, name):
            raise Break("RB001", f"numpy.ndarray.{name}")
        raise AttributeError(name)


def opened(value):
    """Replace fake arrays by tensors, also within tuples, lists and dicts."""
    if isinstance(value, FakeArray):
        return value.fake
    if type(value) in (tuple, list):
        return type(value)(map(opened, value))
    return {k: opened(v) for k, v in value.items()} if type(value) is dict else value


def closed(value, numbers):
    """Replace tensors by fake arrays; ``numbers``: NumPy returns one without dimensions as a scalar."""
    if isinstance(value, Tensor):
        return FakeArray(value, numbers and not value.dim())
    return type(value)(closed(v, numbers) for v in value) if type(value) in (tuple, list) else value


def as_dtype(tensor, dtype):
    wanted = FROM_NUMPY.get(np.dtype(dtype))
    if wanted is None:
        raise Break("RB001", f"an array of {dtype}")
    return tensor if tensor.dtype is wanted else tensor.to(wanted)


def kind_of(value):
    """Return what NumPy's promotion rules inspect: a dtype, or the class of a Python number."""
    if isinstance(value, (Expr, Real)):
        return int if isinstance(value, Expr) else float
    return value.dtype.numpy if isinstance(value, Tensor) else value.dtype if isinstance(value, np.generic) else type(
        value)


def entered(value, dtype):
    """Return an operand of a function that computes in this dtype."""
    if isinstance(value, FakeArray):
        return as_dtype(value.fake, dtype)
    if isinstance(value, (Expr, Real)):
        return value
    if type(value) not in (bool, int, float, complex) and not isinstance(value, np.generic):
        raise Break("RB001", f"a {type(value).__name__} as an operand of an array")
    return OPS["_filled"](dtype.type(value).item(), (), FROM_NUMPY[dtype])


def elementwise(ufunc, compute, inputs):
    """Return (result, True if NumPy returns it as a scalar) of an elementwise function."""
    kinds = tuple(v.dtype if isinstance(v, FakeArray) else kind_of(v) for v in inputs)
    *loop, last = ufunc.resolve_dtypes((*kinds, None))
    if ufunc in WHOLE_DIVISION and loop[1].kind in "iub" and not (type(inputs[1]) is int and inputs[1]):
        raise Break("RB001", f"numpy.{ufunc.__name__}() on integers needs a nonzero constant divisor")
    if ufunc is np.power and last.kind in "iu" and not (type(inputs[1]) is int and inputs[1] >= 0):
        raise Break("RB001", "numpy.power() on integers needs a nonnegative constant exponent")
    result = as_dtype(compute(*map(entered, inputs, loop)), last)
    return result, not result.dim()


def promoted(*values):
    """Return operands in the dtype that NumPy promotes them to."""
    dtype = np.result_type(*(v if isinstance(v, (bool, int, float, complex)) else kind_of(v) for v in values))
    return [as_dtype(v, dtype) if isinstance(v, Tensor) else entered(v, dtype) for v in values]


# --- functions over dimensions ----------------------------------------------------------------------------------------
def reduction(function, compute, several=True):
    """Return a NumPy function that reduces dimensions; ``compute(x, dims, keepdims, **more)``.  ``several``: it accepts
    several dimensions."""
    def reduce(a, axis=None, dtype=None, out=None, keepdims=False, **more):
        if out is not None or not several and isinstance(axis, tuple):
            raise Break("RB001", f"numpy.{function.__name__}() with out= or several axes")
        wanted = function(np.ones(1, kind_of(a)), **({} if dtype is None else {"dtype": dtype})).dtype
        x = a if wanted.kind == "b" or function in SELECTING else as_dtype(a, wanted)
        return as_dtype(compute(x, tuple(range(x.dim())) if axis is None and several else axis, keepdims, **more),
                        wanted)
    return reduce


def product(x, axis, keepdims):
    return api.prod(x) if axis is None and not keepdims else api.prod(x.reshape(-1) if axis is None else x, axis or 0,
                                                                      keepdims)


def running(compute):
    return lambda x, axis, keepdims: compute(x.reshape(-1) if axis is None else x, axis or 0)


def spread(compute):
    return lambda x, dims, keepdims, ddof=0: compute(x, dims, correction=ddof, keepdim=keepdims)


def place_of(compute):
    return lambda x, axis, keepdims: compute(x.reshape(-1), 0) if axis is None else compute(x, axis, keepdims)


SELECTING = (np.argmax, np.argmin)
REDUCTIONS = {np.sum: (lambda x, d, k: api.sum(x, d, k),), np.mean: (lambda x, d, k: api.mean(x, d, k),),
              np.prod: (product, False),
              np.std: (spread(api.std),), np.var: (spread(api.var),), np.max: (lambda x, d, k: api.amax(x, d, k),),
              np.min: (lambda x, d, k: api.amin(x, d, k),),
              np.any: (lambda x, d, k: api.any(x != 0, d, k),), np.all: (lambda x, d, k: api.all(x != 0, d, k),),
              np.argmax: (place_of(api.argmax), False), np.argmin: (place_of(api.argmin), False),
              np.cumsum: (running(api.cumsum), False), np.cumprod: (running(api.cumprod), False)}


# --- functions of shapes, and others ----------------------------------------------------------------------------------
def reshape(a, shape, order="C"):
    if order != "C":
        raise Break("RB001", "numpy.reshape() in another order")
    return a.reshape(shape if isinstance(shape, (tuple, list)) else (shape,))


def expand_dims(a, axis):
    axes = axis if isinstance(axis, tuple) else (axis,)
    rank = a.dim() + len(axes)
    for k in sorted(operator.index(d) % rank for d in axes):
        a = a.unsqueeze(k)
    return a


def joined(compute):
    def join(arrays, axis=0):
        arrays = promoted(*arrays)
        return compute([a.reshape(-1) for a in arrays] if axis is None else arrays, 0 if axis is None else axis)
    return join


def split(ary, indices_or_sections, axis=0):
    if isinstance(indices_or_sections, int) and ary.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return list(api.tensor_split(ary, indices_or_sections, axis))


def take_along(arr, indices, axis=-1):
    """``np.take_along_axis``: negative indices count from the end.  IndexError for indices that are not integers."""
    if axis is None:
        arr, indices, axis = arr.reshape(-1), indices.reshape(-1), 0
    if indices.dtype.category != int64.category:
        raise IndexError(f"`indices` must be an integer array, not one of {indices.dtype}")
    indices = indices.to(int64)
    return api.take_along_dim(arr, api.where(indices < 0, indices + arr.shape[axis], indices), axis)


def take(a, indices, axis=None):
    indices = indices if isinstance(indices, (Tensor, int)) else tensor(indices)
    return a.reshape(-1)[indices] if axis is None else a[(*[slice(None)] * (axis % a.dim()), indices)]


def where(condition, *choices):
    if len(choices) != 2:
        raise Break("RB001", "numpy.where() of a condition alone")
    return api.where(condition != 0, *promoted(*choices))


def clip(a, a_min=None, a_max=None):
    bounds = [b for b in (a_min, a_max) if b is not None]
    x, *bounds = promoted(a, *bounds)
    low = bounds.pop(0) if a_min is not None else None
    return api.clamp(x, low, bounds[0] if bounds else None)


def contracted(compute):
    return lambda a, b, *rest, **options: compute(*promoted(a, b), *rest, **options)


def dot(a, b):
    a, b = promoted(a, b)
    if not a.dim() or not b.dim():
        return a * b
    return api.matmul(a, b) if a.dim() <= 2 and b.dim() <= 2 else api.tensordot(a, b, ([-1], [max(b.dim() - 2, 0)]))


def like(value):
    """Return ``zeros_like`` or a similar function."""
    def fill(a, given=value, dtype=None):
        dtype = kind_of(a) if dtype is None else np.dtype(dtype)
        return OPS["_filled"](dtype.type(given).item(), tuple(a.shape), FROM_NUMPY[dtype])
    return fill


def inexact(compute):
    """Return a function of linear algebra, which converts integers to float64."""
    return lambda a, *rest, **options: compute(*(as_dtype(v, np.result_type(kind_of(v), np.float32)
                                                          if v.dtype.is_inexact else np.float64)
                                                 if isinstance(v, Tensor) else v
                                                 for v in (a, *rest)), **options)


def fourier(function, compute):
    def transform(a, n=None, axis=-1, norm=None):
        return as_dtype(compute(a, n, axis, norm), function(np.ones(4, kind_of(a))).dtype)
    return transform


def ordered(a, axis=-1):
    return api.sort(a.reshape(-1) if axis is None else a, 0 if axis is None else axis).values


FUNCTIONS = {
    **{function: reduction(function, *rule) for function, rule in REDUCTIONS.items()},
    **{getattr(np.fft, name): fourier(getattr(np.fft, name), getattr(fft, name))
       for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{getattr(np.linalg, name): inexact(getattr(linalg, name))
       for name in ("inv", "det", "solve", "cholesky", "pinv")},
    np.linalg.norm: inexact(lambda x, ord=None, axis=None, keepdims=False: linalg.norm(x, ord, axis, keepdims)),
    np.reshape: reshape,
    np.transpose: lambda a, axes=None: a.permute(tuple(range(a.dim()))[::-1] if axes is None else axes),
    np.expand_dims: expand_dims,
    np.swapaxes: lambda a, axis1, axis2: a.transpose(axis1, axis2),
    np.moveaxis: lambda a, source, destination: api.movedim(a, source, destination),
    np.ravel: lambda a, order="C": reshape(a, -1, order), np.squeeze: lambda a, axis=None: a.squeeze() if axis is None
    else a.squeeze(axis),
    np.concatenate: joined(api.cat), np.stack: joined(api.stack), np.split: split, np.take: take, np.where: where,
    np.clip: clip,
    np.vstack: lambda tup: api.vstack(promoted(*tup)), np.hstack: lambda tup: api.hstack(promoted(*tup)),
    np.column_stack: lambda tup: api.column_stack(promoted(*tup)),
    np.tile: lambda A, reps: api.tile(A, reps if isinstance(reps, tuple) else (reps,)),
    np.roll: lambda a, shift, axis=None: api.roll(a, shift, axis), np.take_along_axis: take_along,
    np.fft.fftshift: lambda x, axes=None: fft.fftshift(x, axes),
    np.fft.ifftshift: lambda x, axes=None: fft.ifftshift(x, axes),
    np.repeat: lambda a, repeats, axis=None: api.repeat_interleave(a.reshape(-1) if axis is None else a, repeats,
                                                                   0 if axis is None else axis),
    np.tril: lambda m, k=0: api.tril(m, k), np.triu: lambda m, k=0: api.triu(m, k),
    np.trace: lambda a: as_dtype(api.trace(a), np.trace(np.ones((1, 1), kind_of(a))).dtype),
    np.dot: dot, np.inner: lambda a, b: dot(a, b.transpose(-1, -2) if b.dim() > 1 else b),
    np.outer: contracted(lambda a, b: api.outer(a.reshape(-1), b.reshape(-1))),
    np.tensordot: contracted(lambda a, b, axes=2: api.tensordot(a, b, axes)),
    np.einsum: lambda subscripts, *operands: api.einsum(subscripts, *promoted(*operands)),
    np.copy: lambda a: a.clone(), np.zeros_like: like(0), np.ones_like: like(1), np.empty_like: like(0),
    np.full_like: lambda a, fill_value, dtype=None: like(0)(a, fill_value, dtype), np.sort: ordered,
    np.round: lambda a, decimals=0: api.round(a, decimals=decimals) if a.dtype.is_inexact else a.clone(),
    np.diff: lambda a, n=1, axis=-1: api.diff(a, n, axis),
    np.real: lambda val: api.real(val), np.imag: lambda val: api.imag(val) if val.dtype.is_complex
    else api.zeros_like(val),
    np.shape: lambda a: tuple(a.shape), np.ndim: lambda a: a.dim(), np.size: lambda a: a.numel(),
}
# whose results without dimensions are numbers
NUMBERS = frozenset((*REDUCTIONS, np.dot, np.inner, np.take, np.trace, np.linalg.det, np.linalg.norm, np.einsum,
                     np.round, np.clip))
SAME = ("sin cos tan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p sqrt square sign floor ceil trunc isnan isinf "
        "isfinite signbit negative positive add subtract "
        "multiply divide floor_divide remainder fmod maximum minimum fmax fmin logaddexp logaddexp2 hypot copysign "
        "heaviside logical_and logical_or logical_not logical_xor "
        "bitwise_and bitwise_or bitwise_xor left_shift right_shift equal not_equal less less_equal greater "
        "greater_equal matmul deg2rad rad2deg gcd lcm float_power")
OTHERS = {"absolute": "abs", "fabs": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
          "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
          "power": "pow", "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg",
          "invert": "bitwise_not", "conjugate": "conj_physical", "rint": "round", "reciprocal": "reciprocal",
          "degrees": "rad2deg", "radians": "deg2rad",
          "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
          "left_shift": "bitwise_left_shift",
          "right_shift": "bitwise_right_shift"}
UFUNCS = {getattr(np, name): getattr(api, OTHERS.get(name, name)) for name in (*SAME.split(), *OTHERS)}
WHOLE_DIVISION = (np.floor_divide, np.remainder, np.fmod, np.reciprocal)
METHODS = {name: getattr(np, name)
           for name in (
                   "sum mean prod std var max min any all argmax argmin cumsum cumprod swapaxes ravel squeeze take "
                   "clip round trace repeat "
                   "dot").split()}
METHODS |= {"copy": lambda a: FakeArray(a.fake.clone(memory_format=contiguous_format), a.scalar), "conj": np.conjugate,
            "conjugate": np.conjugate, "tolist": lambda a: a.fake.tolist(), "item": lambda a: a.fake.item(),
            "flatten": lambda a: np.copy(np.ravel(a)),
            "reshape": lambda a, *shape, **options: np.reshape(a, shape[0] if len(shape) == 1 else shape, **options),
            "transpose": lambda a, *axes: np.transpose(a, (axes[0] if isinstance(axes[0], tuple) else axes) if axes
                                                       and axes[0] is not None else None),
            "astype": lambda a, dtype, copy=True: FakeArray(converted(a.fake, dtype, copy), a.scalar),
            "fill": lambda a, value: a.__setitem__(..., value),
            "__len__": lambda a: len(a.fake)}


def converted(tensor, dtype, copy):
    found = as_dtype(tensor, dtype)
    return found.clone() if copy and found is tensor else found


# --- from outside, and back -------------------------------------------------------------------------------------------
def shared(array) -> bool:
    """True if a tensor can share the memory of an array: for the guards of compiled code."""
    return (type(array) is np.ndarray and array.dtype in FROM_NUMPY and array.flags.writeable and
            all(s >= 0 and s % array.itemsize == 0 for s in array.strides))


def array_of(tensor, scalar):
    """Return the array, or the scalar, for a tensor of a graph."""
    found = to_numpy(tensor.detach())
    return found[()] if scalar else found


def constant_array(array, recorder):
    """Return an array that the program makes of known values at each call."""
    return FakeArray(recorder.constant(lambda: from_numpy(np.array(array))))
