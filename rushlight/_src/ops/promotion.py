"""Promotion of operands to one dtype, by PyTorch's rules."""
from __future__ import annotations

from ..core import dtypes
from ..core.shape_env import estimated
from ..core.kinds import P
from ..core.narrow import as_held
from ..core.native import Tensor
from ..core.runtime import RunTime, has_value, is_number


def number_category(value) -> int:
    return value.dtype.category if isinstance(value, Tensor) else dtypes.category_of(value)


def result_dtype(*values) -> dtypes.dtype:
    """Return the dtype to which these tensors and numbers are promoted."""
    dimensioned = [v.dtype for v in values if not is_number(v) and len(v.shape)]
    zero_dim = [v.dtype for v in values if not is_number(v) and not len(v.shape)]
    return dtypes.result_type(dimensioned, zero_dim, [number_category(v) for v in values if is_number(v)])


def as_dtype(value, dtype: dtypes.dtype):
    """Convert a tensor (unchanged if it has the dtype), or a number to Python's type of that category."""
    if isinstance(value, Tensor):
        return value if value.dtype is dtype and not getattr(value, "weak", False) else P.convert(value, dtype=dtype)
    if dtype.category == dtypes.COMPLEX:
        return complex(value)
    if isinstance(value, complex):
        raise RuntimeError(
            f"value {value} cannot be converted to type {dtype.name} without overflow: take its real part, or convert "
            "the tensor to a complex dtype")
    value = estimated(value)
    if isinstance(value, (str, bytes, list, tuple, dict)) or value is None:
        raise TypeError(f"argument 'other' must be Tensor or a number, not {type(value).__name__}")
    if dtype.category == dtypes.FLOATING:
        return float(value)
    return bool(value) if dtype is dtypes.bool_ else int(value)


def real(value):
    """Return a number as a float; a run-time scalar unchanged."""
    return value if isinstance(value, Tensor) or hasattr(type(value), "category") else float(value)


def check_number(value, dtype, computed=False):
    """RuntimeError for a Python number that a dtype cannot represent; 16-bit floats count as float32 if it is computed
    with."""
    dtype = dtypes.float32 if computed and dtype.is_half else dtype
    if isinstance(value, RunTime):
        if (value.dtype is dtype or dtype is dtypes.bool_ or not value.dtype.is_inexact and dtype.is_inexact
            and dtype is not dtypes.float16):
            return
        if value.dtype.is_inexact is dtype.is_inexact and value.within(*dtypes.limits_of(dtype)):
            return
        dtypes.check_range(value, value, dtype)
    elif type(value) in (int, float):
        dtypes.check_range(value, value, dtype)
    elif type(value) is complex and value.imag and not dtype.is_complex:
        raise RuntimeError(
            f"value cannot be converted to type {dtype.name} without overflow: {value} has an imaginary part")


def needs(lowest, name, x, highest=dtypes.COMPLEX):
    """NotImplementedError for a dtype below a category or above another, for which PyTorch has no kernel."""
    if not lowest <= x.dtype.category <= highest:
        kind = "complex inputs" if x.dtype.is_complex else x.dtype
        raise NotImplementedError(f"{name} is not supported for {kind}: convert them first")


def check_factor(value, dtype):
    """RuntimeError for an invalid ``alpha`` in a sum of this dtype: a float for integers, or out of range."""
    if has_value(value):
        category = number_category(value)
        if category == dtypes.FLOATING and not dtype.is_inexact:
            raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
        check_number(value, dtype)


def held(value, dtype: dtypes.dtype, computed=False):
    """``as_dtype`` of a value that is stored in, or multiplied with, a tensor of that dtype: RuntimeError for a number
    that it cannot represent."""
    check_number(value, dtype, computed)
    return as_dtype(value, dtype)


def promoted(*values, floating=False, dtype=None):
    """Promote the values to their common dtype; with ``floating``, integers become the default floating dtype.

    At least one of the results is a tensor: numbers alone become 0-dim tensors.
    """
    dtype = dtype or result_dtype(*values)
    if floating and not dtype.is_inexact:
        dtype = dtypes.Defaults.floating
    out = [as_dtype(v, dtype) for v in values]
    if not any(isinstance(v, Tensor) for v in out):
        out[0] = P.full(shape=(), value=out[0], dtype=dtype)
    return out if len(out) > 1 else out[0]


def promoted_as_stored(*values):
    """``promoted``, with numbers and tensors of other dtypes rounded to 16-bit floats as if stored: for operators with
    discontinuities, such as comparisons and remainders."""
    dtype = result_dtype(*values)
    if not dtype.is_half or dtype.itemsize < 2:  # float8 values are stored as encodings, rounded at their creation
        return promoted(*values)
    return [v if isinstance(given, Tensor) and given.dtype is dtype and not is_number(given) else
            P.as_stored(v) if isinstance(v, Tensor) else as_held(v, dtype)
            for given, v in zip(values, promoted(*values))]


def floating(value):
    """A tensor of a floating or complex dtype: integers become the default floating dtype."""
    return promoted(value, floating=True)


def upcast(value):
    """Convert 16-bit floats to float32, so that a body rounds once, at its end; other dtypes are unchanged."""
    return P.convert(value, dtype=dtypes.float32) if value.dtype.is_half else value


def downcast(value, like):
    """Round a result to the dtype of ``like``: the end of a body that began with ``upcast``."""
    return P.convert(value, dtype=like.dtype) if value.dtype is not like.dtype else value
