"""Factory functions: constants, ranges, random numbers."""
from __future__ import annotations

import functools
import math

from ..core.advice import deprecated
from ..core import devices, dtypes
from ..core.devices import on
from ..core.dtypes import FLOATING, INTEGER, float32, float64, int64
from ..core.errors import NegativeSizeError, OperandError
from ..core.expectations import at_most, expect, expect_counts
from ..core.expr import Expr
from ..core.shape_env import estimated
from ..core.interpret import top
from ..core.later import entered
from ..core.kinds import MOST_KNOWN, P, layout_kept
from ..core.meta import channels_last_strides, row_major
from ..core.op import OPS, Scalar, op
from ..core.tensor import Tensor, empty as empty_tensor
from ..core.undefined import settled
from .promotion import as_dtype, check_number, number_category, real
from .rearrange import check_rank
from .shape import sizes_of

make_vacant = entered("sparse.conversion", "make_vacant")


def is_only_known(device) -> bool:
    """True if a tensor on a device has no elements and no trace, which would record its construction, is active."""
    where = devices.placed(device)
    return where is not devices.cpu and not where.provider.has_data and not (top() and top().traces)


@op(method=False, name="_filled")
def filled(value: Scalar, size, dtype, device=None):
    """A tensor filled with one value."""
    value = as_dtype(value, dtype)
    if isinstance(value, Tensor):
        return P.copy(P.expand(value, shape=tuple(size)))
    return P.full(shape=tuple(size), value=value, dtype=dtype)


SPLIT = (1 << 27) + 1.0  # a double times this, rounded, gives its upper half


def in_halves(x):
    """Split a float64 into a sum of two with 26 bits each."""
    far = P.mul(x, SPLIT)
    high = P.sub(far, P.sub(far, x))
    return high, P.sub(x, high)


def fused(k, step, start):
    """start + k * step of float64, rounded once but for rare ties."""
    product = P.mul(k, step)
    (a, b), (c, d) = in_halves(k), in_halves(step)
    lost = P.add(P.add(P.add(P.sub(P.mul(a, c), product), P.mul(a, d)), P.mul(b, c)), P.mul(b, d))
    total = P.add(start, product)
    part = P.sub(total, start)
    lost = P.add(lost, P.add(P.sub(start, P.sub(total, part)), P.sub(product, part)))
    return P.add(total, P.where(P.eq(P.mul(lost, 0.0), 0.0), lost, 0.0))  # splits near the maximum overflow


@op(method=False, name="_range")
def spaced(start: Scalar, step: Scalar, count, dtype, device=None):
    """start + k * step for k below count.  With a fractional step, floats are rounded as in PyTorch: each group of 32
    bytes is computed from its first element, while two such groups are left."""
    broken = any(number_category(v) == FLOATING for v in (start, step))
    wide = dtype if dtype.category != FLOATING or dtype is float64 else float64
    start, step = as_dtype(start, wide), as_dtype(step, wide)
    if not broken or dtype not in (float32, float64):
        out = P.add(P.mul(P.iota(size=count, dtype=wide), step), start)
        return out if wide is dtype else P.convert(out, dtype=dtype)
    along = fused if dtype is float64 else lambda k, step, start: P.convert(P.add(P.mul(k, step), start), dtype=float32)
    k, size = P.iota(size=count, dtype=int64), 32 // dtype.itemsize
    first = P.where(P.lt(k, estimated(count // (2 * size)) * 2 * size), P.sub(k, P.remainder(k, size)), k)
    base = along(P.convert(first, dtype=float64), step, start)
    return along(P.convert(P.sub(k, first), dtype=float64), step, P.convert(base, dtype=float64) if dtype is float32
                 else base)


def whole(value):
    """Return a size or count as an int; symbols are unchanged."""
    return value if isinstance(value, Expr) else int(value)


def checked_sizes(size):
    """Return sizes as ints.  TypeError for other objects, RuntimeError for negative ones."""
    given = sizes_of(size)
    if {*map(type, given)} <= {int} and min(given, default=0) >= 0:
        return given
    for s in given:
        if isinstance(s, bool) or not hasattr(s, "__index__"):
            raise OperandError(f"argument 'size' must be tuple of ints, but contains {s!r}, a {type(s).__name__}",
                               "ints", "convert it with int()")
    out = tuple(map(whole, given))
    expect_counts(out, lambda: NegativeSizeError(
        f"Trying to create tensor with negative dimension: {list(out)}", "sizes of 0 or more"))
    return out


def finished(tensor, requires_grad):
    return tensor.requires_grad_() if requires_grad else tensor


def constant(size, value, dtype, device, requires_grad):
    dtype = dtype or dtypes.default_of(dtypes.category_of(value))
    if is_only_known(device):
        return finished(empty_tensor(size, dtype, device=device), requires_grad)
    check_number(value, dtype)
    return finished(filled(value, size, dtype, *on(device)), requires_grad)


def is_sparse(layout) -> bool:
    """True for sparse layouts."""
    return layout is not None and layout.name not in ("strided", "jagged")


def make_sparse(shape, dtype, layout, requires_grad):
    """A tensor without elements in a sparse layout."""
    return finished(make_vacant(shape, dtype or dtypes.Defaults.floating, layout), requires_grad)


def full_in(layout):
    """Raise RuntimeError for a sparse layout: every element gets a value."""
    if is_sparse(layout):
        raise RuntimeError(
            f"a tensor full of one value is not sparse: layout={layout} is not implemented for it. Make it dense, "
            "then call to_sparse()")


@op(composite=True, method=False)
def zeros(*size, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, names=None):
    """A tensor of zeros."""
    if is_sparse(layout):
        return make_sparse(checked_sizes(size), dtype, layout, requires_grad)
    return constant(checked_sizes(size), 0.0, dtype, device, requires_grad)


@op(composite=True, method=False)
def ones(*size, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, names=None):
    """A tensor of ones."""
    full_in(layout)
    return constant(checked_sizes(size), 1.0, dtype, device, requires_grad)


@op(composite=True, method=False)
def full(size, fill_value, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
         names=None):
    """A tensor filled with one value; its dtype is the value's unless given."""
    full_in(layout)
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return constant(checked_sizes((size,)), value, dtype, device, requires_grad)


@op(composite=True, method=False)
def empty(*size, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
          memory_format=None, names=None):
    """Return an uninitialized tensor."""
    shape, strides = checked_sizes(size), None
    if is_sparse(layout):
        return make_sparse(shape, dtype, layout, requires_grad)
    if memory_format is not None and memory_format.name.startswith("channels_last"):
        check_rank(memory_format, shape)
        strides = channels_last_strides(shape)
    made = settled(empty_tensor(shape, dtype or dtypes.Defaults.floating, strides, device))
    return finished(made, requires_grad)


@op(composite=True, method=False)
def empty_strided(size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """Return an uninitialized tensor with the given strides."""
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"empty_strided: negative strides are not supported, got strides: {list(stride)}")
    return finished(settled(empty_tensor(checked_sizes((size,)), dtype or dtypes.Defaults.floating, stride, device)),
                    requires_grad)


@op(composite=True, method=False)
def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, requires_grad=False,
                   pin_memory=False):
    """Return an uninitialized tensor whose dimensions are stored in the given order, outermost first."""
    if sorted(physical_layout) != [k for k, _ in enumerate(size)]:
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; or "
            f"{list(physical_layout)} is not a permutation")
    inner = row_major(tuple(size[k] for k in physical_layout))
    strides = [0] * len(size)
    for k, s in zip(physical_layout, inner):
        strides[k] = s
    return empty_strided(size, strides, dtype=dtype, device=device, requires_grad=requires_grad)


@op(composite=True, method=False, by_rows=True, fresh="empty")
def empty_like(input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
               memory_format=None):
    """Return an uninitialized tensor with the shape and strides of input."""
    if is_sparse(layout):
        return make_sparse(input.shape, dtype or input.dtype, layout, requires_grad)
    if memory_format is not None and memory_format.name == "contiguous_format":
        strides = None
    elif memory_format is not None and memory_format.name.startswith("channels_last"):
        check_rank(memory_format, input.shape)
        strides = channels_last_strides(input.shape)
    else:
        strides = layout_kept(input._rush_meta)
    made = settled(empty_tensor(input.shape, dtype or input.dtype, strides, device or input.device))
    return finished(made, requires_grad)


@functools.lru_cache(maxsize=MOST_KNOWN)
def in_plain_rows(meta) -> bool:
    """True if strides are row-major, also for dimensions of size 1."""
    return tuple(meta.strides) == row_major(meta.shape)


def full_of(input, value, dtype, device, requires_grad, memory_format):
    """One value, in the shape and strides of input."""
    meta = input._rush_meta
    if device is None and memory_format is None and top() is None and meta.device.provider.has_data and in_plain_rows(
            meta):
        return finished(filled(value, meta.shape, dtype or meta.dtype, *on(meta.device)), requires_grad)
    out = empty_like(input, dtype=dtype, device=device, memory_format=memory_format)
    return finished(OPS["fill_"](out, value) if out._rush_meta.device.provider.has_data else out, requires_grad)


def like(name, value):
    def body(input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None):
        if is_sparse(layout) and value == 0:
            return make_sparse(input.shape, dtype or input.dtype, layout, requires_grad)
        full_in(layout)
        return full_of(input, value, dtype, device, requires_grad, memory_format)
    body.__name__, body.__doc__ = name, f"{name.split('_')[0]}, in the shape and layout of input."
    return op(body, composite=True, method=False, by_rows=True, fresh="filled")


zeros_like, ones_like = like("zeros_like", 0), like("ones_like", 1)


@op(composite=True, method=False, by_rows=True, fresh="filled")
def full_like(input, fill_value, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
              memory_format=None):
    """One value, in the shape and strides of input."""
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    check_number(value, dtype or input.dtype)
    return full_of(input, value, dtype, device, requires_grad, memory_format)


def new(name, function):
    def body(input, *size: object, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False, **more):
        if "fill_value" in more:
            size = (*size, more.pop("fill_value"))
        return function(*size, **more, dtype=dtype or input.dtype, device=device or input.device,
                        requires_grad=requires_grad)
    body.__name__, body.__doc__ = name, f"As {name[4:]}, with the dtype and device of this tensor."
    made = op(body, composite=True, fresh="empty" if function in (empty, empty_strided) else "filled")
    made.traits["method_only"] = True
    return made


for _name, _function in {"new_zeros": zeros, "new_ones": ones, "new_full": full, "new_empty": empty,
                         "new_empty_strided": empty_strided}.items():
    globals()[_name] = new(_name, _function)


@op(composite=True, method=False, out_in_order=True)
def arange(start=None, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, pin_memory=False,
           requires_grad=False):
    """start, start + step, ... below end.

    [ceil((end - start) / step)]; int64 if all three are integers, else the default dtype.

    >>> torch.arange(1, 7, 2)
    tensor([1, 3, 5])
    """
    start, end = (0, start) if end is None else (0 if start is None else start, end)
    if end is None:
        raise TypeError("arange() missing 1 required positional argument: 'end'")
    start, end, step = (v.item() if isinstance(v, Tensor) else int(v) if type(v) is bool else v
                        for v in (start, end, step))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not all(isinstance(v, Expr) or math.isfinite(v) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    expect(at_most(0, (end - start) * step),
           lambda: RuntimeError("upper bound and lower bound inconsistent with step sign"))
    if dtype is None:
        dtype = int64 if all(isinstance(v, (int, Expr)) for v in (start, end, step)) else dtypes.Defaults.floating
    if dtype.category == INTEGER and int(step) == 0:
        raise ValueError(f"step must be nonzero: {step} is 0 as {dtype}")
    if dtype is int64:
        start, end, step = (int(v) if isinstance(v, float) else v for v in (start, end, step))
    count = -(-(end - start) // step) if all(isinstance(v, (int, Expr))
                                             for v in (start, end, step)) else math.ceil((end - start) / step)
    if is_only_known(device):
        return empty_tensor((int(count),), dtype, device=device)
    return finished(spaced(start, step, whole(count), dtype, *on(device)), requires_grad)


@op(composite=True, method=False, out_in_order=True)
@devices.placing
def range(start, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, pin_memory=False,
          requires_grad=False):
    """start, start + step, ... up to and including end."""
    deprecated("torch.range", "torch.arange, which leaves the end out")
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError("upper bound and larger bound inconsistent with step sign" if step
                           else "step must be nonzero")
    return finished(spaced(start, step, int((end - start) / step) + 1, dtype or dtypes.Defaults.floating),
                    requires_grad)


def floating_for(name, dtype, *values):
    """Return the given dtype, or else the default one, complex if a number is.  RuntimeError for a complex number with
    a real dtype."""
    if not any(isinstance(v, complex) for v in values):
        return dtype or dtypes.Defaults.floating
    found = dtypes.Defaults.floating.to_complex()
    if dtype is not None and not dtype.is_complex:
        raise RuntimeError(f"torch.{name}(): inferred dtype {found} can't be safely cast to passed dtype {dtype}")
    return dtype or found


def point_count(name, steps):
    steps = steps.item() if isinstance(steps, Tensor) else steps
    if not isinstance(steps, (int, Expr)):
        raise TypeError(f"{name}(): argument 'steps' must be int, not {type(steps).__name__}")
    expect_counts((steps,), lambda: RuntimeError("number of steps must be non-negative"))
    return steps if isinstance(steps, Expr) else int(steps)


@op(method=False, name="_linspace")
def evenly(start: Scalar, end: Scalar, count, dtype, device=None):
    """``count`` points from start to end, both included; rounded symmetrically, as in PyTorch: ends and step in the
    dtype, each point once."""
    wide = dtype if dtype.is_complex else float64
    rounded = (lambda v: P.convert(P.convert(v, dtype=dtype), dtype=float64)) if dtype is float32 else lambda v: v
    start, end = rounded(as_dtype(start, wide)), rounded(as_dtype(end, wide))
    k = P.iota(size=count, dtype=float64)
    if wide is not float64:
        k = P.convert(k, dtype=wide)
    last = count - 1  # an int, which may be a symbol
    step = rounded(P.div(rounded(P.sub(end, start)), last if count > 1 else 1))
    if dtype is float64:
        low, high = fused(k, step, start), fused(P.sub(last, k), P.neg(step), end)
    else:
        low, high = P.add(P.mul(k, step), start), P.sub(end, P.mul(P.sub(last, k), step))
    first = P.lt(P.iota(size=count, dtype=int64), estimated(count // 2) if count > 1 else 1)
    out = P.where(first, low, high)
    return P.convert(out, dtype=dtype) if out.dtype is not dtype else out


@op(composite=True, method=False, out_in_order=True)
def linspace(start, end, steps, *, out=None, dtype=None, layout=None, device=None, pin_memory=False,
             requires_grad=False):
    """``steps`` evenly spaced points, both ends included.

    >>> torch.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    start, end = (v.item() if isinstance(v, Tensor) else v for v in (start, end))
    dtype = floating_for("linspace", dtype, start, end)
    count = point_count("linspace", steps)
    if not dtype.is_inexact:
        start, end = whole(start), whole(end)
    if is_only_known(device):
        return empty_tensor((count,), dtype, device=device)
    if dtype.is_complex:
        return finished(evenly(complex(start), complex(end), count, dtype, *on(device)), requires_grad)
    start, end = (v if isinstance(v, Expr) else real(v) for v in (start, end))
    return finished(evenly(start, end, count, dtype, *on(device)), requires_grad)


@op(composite=True, method=False, out_in_order=True)
@devices.placing
def logspace(start, end, steps, base=10.0, *, out=None, dtype=None, layout=None, device=None, pin_memory=False,
             requires_grad=False):
    """base ** linspace(start, end, steps)."""
    from .elementwise import rpow
    start, end = (v.item() if isinstance(v, Tensor) else v for v in (start, end))
    dtype = floating_for("logspace", dtype, start, end)
    wide = dtype if dtype.is_complex else float64
    if not dtype.is_inexact:
        start, end = int(start), int(end)
    points = linspace(start, end, steps, dtype=wide)
    return finished(to_dtype(rpow(points, base), dtype), requires_grad)


@op(composite=True, method=False)
def eye(n, m=None, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """Ones on the diagonal."""
    for count in (n, n if m is None else m):
        expect_counts((count,), lambda count=count: RuntimeError(f"n must be greater or equal to 0, got {count}"))
    if is_only_known(device):
        return empty_tensor((n, n if m is None else m), dtype or dtypes.Defaults.floating, device=device)
    return finished(identity(n, n if m is None else m, dtype or dtypes.Defaults.floating, *on(device)), requires_grad)


@op(method=False, name="_eye")
def identity(n, m, dtype, device=None):
    """Ones where row and column are equal."""
    rows, columns = P.reshape(P.iota(size=n, dtype=int64), shape=(n, 1)), P.reshape(P.iota(size=m, dtype=int64),
                                                                                    shape=(1, m))
    return P.convert(P.eq(rows, columns), dtype=dtype)


from .rearrange import to_dtype  # noqa: E402


@op(composite=True, method=False)
@devices.placing
def tril_indices(row, col, offset=0, *, dtype=int64, device=None, layout=None, pin_memory=False):
    """Row and column of every element of the lower triangle: [2, n]."""
    return triangle_indices(row, col, offset, True, dtype)


@op(composite=True, method=False)
@devices.placing
def triu_indices(row, col, offset=0, *, dtype=int64, device=None, layout=None, pin_memory=False):
    """Row and column of every element of the upper triangle: [2, n]."""
    return triangle_indices(row, col, offset, False, dtype)


@op(method=False, name="_triangle")
def triangle(row, col, offset: Scalar, lower):
    """Mask of the elements [row, col] that belong to a triangle."""
    across = P.sub(P.reshape(P.iota(size=col, dtype=int64), shape=(1, col)),
                   P.reshape(P.iota(size=row, dtype=int64), shape=(row, 1)))
    return P.le(across, offset) if lower else P.ge(across, offset)


def triangle_indices(rows, columns, offset, lower, dtype):
    if rows < 0 or columns < 0:
        raise RuntimeError(f"{'row' if rows < 0 else 'col'} must be non-negative, got {rows if rows < 0 else columns}")
    found = OPS["nonzero"](triangle(rows, columns, offset, lower), as_tuple=True)
    return to_dtype(OPS["stack"](found), dtype)


@op(composite=True, method=False)
def vander(x, N=None, increasing=False):
    """Columns of powers of a vector."""
    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.size(0) if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    powers = arange(count, device=x.device)
    out = x.unsqueeze(-1) ** (powers if increasing else count - 1 - powers)
    return out
