"""Equality and closeness of tensors: equal, isclose, allclose."""
from __future__ import annotations

from ..core.native import Tensor
from ..core.op import op
from ..core.runtime import has_value


@op(composite=True)
def equal(input, other):
    """True if two tensors have the same shape and elements: a Python bool."""
    return tuple(input.shape) == tuple(other.shape) and bool((input == other).all())


@op(composite=True, planned=True)
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """|input - other| <= atol + rtol * |other|, element by element."""
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype} did not match {other.dtype}")
    if not all(v >= 0 for v in (rtol, atol) if has_value(v)):  # NaN is neither
        raise RuntimeError(f"rtol and atol must be greater than or equal to zero, but got {rtol} and {atol}")
    close = input == other
    if equal_nan and input.dtype.is_inexact:
        close = close | (input.isnan() & other.isnan())
    if all(has_value(v) and v == 0 for v in (rtol, atol)):
        return close
    a, b = (v.double() if not v.dtype.is_inexact else v for v in (input, other))
    return close | ((a - b).abs().isfinite() & ((a - b).abs() <= atol + (rtol * b).abs()))


@op(composite=True)
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """True if all elements are close: a Python bool."""
    rtol, atol = (v.item() if isinstance(v, Tensor) else v for v in (rtol, atol))
    return bool(isclose(input, other, rtol, atol, equal_nan).all())
