"""Quantiles, which interpolate between sorted elements."""
from __future__ import annotations

from ..core.dtypes import int64
from ..core.op import op
from ..core.tensor import Tensor, refuse_where, wrapped
from .sort import _choose, sorted_


@op(composite=True, autocast="float32")
def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """Quantiles along a dimension, interpolated between adjacent elements."""
    return quantiles(input, q, dim, keepdim, interpolation, False)


@op(composite=True, autocast="float32")
def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """Quantiles of the elements that are not NaN."""
    return quantiles(input, q, dim, keepdim, interpolation, True)


def quantiles(input, q, dim, keepdim, interpolation, skip_nan):
    if input.dtype.name not in ("float32", "float64"):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}")
    if input.numel() == 0:
        raise RuntimeError("quantile() input tensor must be non-empty")
    points = q if isinstance(q, Tensor) else input.new_full((), q)
    if points.dim() > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    if points.dtype is not input.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    refuse_where(~((points >= 0) & (points <= 1)), RuntimeError("quantile() q values must be in the range [0, 1]"))
    return interpolated(input, points, None if dim is None else wrapped(dim, input.dim()), bool(keepdim), interpolation,
                        skip_nan)


@op(method=False, name="_interpolated", overwritable=("input", "points"))
def interpolated(input, points, dim, keepdim, interpolation, skip_nan):
    """Quantiles at these points, a number or a vector, of sorted elements."""
    x = input.reshape(-1) if dim is None else input.movedim(dim, -1) if input.dim() else input.reshape(1)
    order, _ = sorted_(x, -1, False)
    count = (~order.isnan()).sum(-1, keepdim=True) if skip_nan else order.new_full((*order.shape[:-1], 1),
                                                                                   order.size(-1))
    points_within = _choose((points >= 0) & (points <= 1), points, 0.0)  # a program may check others after this
    rank = points_within.reshape(-1) * (count - 1).clamp(min=0).to(input.dtype)
    if interpolation == "lower":
        rank = rank.floor()
    elif interpolation == "higher":
        rank = rank.ceil()
    elif interpolation == "nearest":
        rank = rank.round()
    below = rank.floor().to(int64)
    low, high = order.gather(-1, below), order.gather(-1, rank.ceil().to(int64))
    weight = 0.5 * (rank.ceil() - rank.floor()) if interpolation == "midpoint" else rank - below.to(input.dtype)
    out = low + (high - low) * weight
    if not skip_nan:
        out = _choose(order[..., -1:].isnan(), float("nan"), out)
    out = out.movedim(-1, 0)
    if keepdim:
        out = out.reshape((-1,) + (1,) * input.dim()) if dim is None else out.unsqueeze(dim + 1) if input.dim() else out
    return out if points.dim() else out.squeeze(0)
