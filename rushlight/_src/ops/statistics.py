"""Statistics and numerical calculus: covariance, histograms, trapezoids, slopes."""
from __future__ import annotations

import numpy as np

from ..core.advice import warn
from ..core.dtypes import FLOATING
from ..core.exchange import computed, values_of
from ..core.meta import product
from ..core.op import OPS, op, sample
from ..core.results import named
from ..core.runtime import is_number
from ..core.tensor import Tensor, wrapped


# --- covariance -------------------------------------------------------------------------------------------------------
def check_weights(name, weights, count, whole):
    if weights is None:
        return
    if weights.dim() > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.dim()} dimensions")
    if whole and weights.dtype.is_inexact:
        raise RuntimeError(f"cov(): expected {name} to have integral dtype but got {name} with {weights.dtype} dtype")
    if not whole and weights.dtype.category != FLOATING:
        raise RuntimeError(
            f"cov(): expected {name} to have floating point dtype but got {name} with {weights.dtype} dtype")
    if weights.numel() != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{weights.numel()} != {count}")
    if count and bool((weights < 0).any()):
        raise RuntimeError(f"cov(): {name} cannot be negative")


@op(composite=True, samples=(sample((3, 5)), sample((4,), correction=0)))
def cov(input, *, correction: int = 1, fweights=None, aweights=None):
    """The covariance of variables (rows) over observations (columns), which may be repeated or weighted: [v, n] -> [v,
    v]."""
    if input.dim() > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.dim()} dimensions")
    x = input if input.dim() == 2 else input.reshape(1, -1)
    x = x if x.dtype.is_inexact else x.float()
    count = x.size(1)
    check_weights("fweights", fweights, count, True)
    check_weights("aweights", aweights, count, False)
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    total = count if weights is None else weights.sum()
    if weights is not None and float(total) == 0:
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    mean = (x.sum(1) / count if weights is None else (x * weights).sum(1) / total).unsqueeze(1)
    below = total - correction if weights is None or aweights is None or correction == 0 else total - correction * (
        weights * aweights).sum() / total
    few = count <= correction
    if few:
        warn(f"cov(): degrees of freedom is <= 0: {count} observations are too few for a correction of {correction}.")
    below = below.clamp(min=0) if isinstance(below, Tensor) else 0 if few else below
    away = x - mean
    weighted = away if weights is None else away * weights
    out = (away @ (weighted.mH if weighted.is_complex() else weighted.mT)) / below
    return out.squeeze() if input.dim() < 2 else out.squeeze() if out.numel() == 1 else out


@op(composite=True, samples=(sample((3, 5)),))
def corrcoef(input):
    """The correlation coefficients of variables (rows): [v, n] -> [v, v]."""
    if input.dim() > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input.dim()} dimensions")
    c = cov(input)
    if not c.dim():
        return c / c
    spread = c.diagonal().real.sqrt() if c.is_complex() else c.diagonal().sqrt()
    out = c / spread.unsqueeze(1) / spread.unsqueeze(0)
    return out if out.is_complex() else out.clamp(-1, 1)


# --- histograms -------------------------------------------------------------------------------------------------------
def edges_of(points, bins, limits):
    """The bin edges of one variable: given, or equal between limits (by default those of the data)."""
    if not isinstance(bins, int):
        return np.asarray(bins)
    if bins <= 0:
        raise RuntimeError(f"torch.histogramdd(): bins {bins} must be > 0")
    low, high = limits if limits is not None else (points.min(), points.max()) if points.size else (0, 1)
    if low == high:
        low, high = low - 0.5, high + 0.5
    if not np.isfinite([low, high]).all():
        raise RuntimeError(f"torch.histogramdd(): range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"torch.histogramdd(): min should not exceed max, but got min {low} max {high}")
    return np.linspace(low, high, bins + 1).astype(points.dtype)


def counted(points, edges, weight, density):
    """Counts (sums of weights) of rows of points in a grid of bins; points outside are ignored."""
    shape = tuple(len(e) - 1 for e in edges)
    keep, cell = np.ones(len(points), bool), np.zeros(len(points), np.int64)
    for k, e in enumerate(edges):
        x = points[:, k]
        keep &= (x >= e[0]) & (x <= e[-1])
        cell = cell * shape[k] + np.clip(np.searchsorted(e, x, "right") - 1, 0, shape[k] - 1)
    weights = None if weight is None else weight.reshape(-1)[keep].astype(np.float64)
    out = np.bincount(cell[keep], weights, product(shape)).reshape(shape).astype(points.dtype)
    if density:
        out = out / out.sum()
        for k, e in enumerate(edges):
            out = out / np.diff(e).reshape([-1 if j == k else 1 for j in range(len(shape))])
    return out


def check_histogram(name, input, weight, shape):
    if input.dtype.name not in ("float32", "float64"):
        raise RuntimeError(f"torch.{name}(): input tensor must be floating, got {input.dtype}")
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            f"torch.{name}(): if weight tensor is provided, input tensor and weight tensor should have the same "
            f"dtype, but got input {input.dtype}, and weight {weight.dtype}")
    if weight is not None and tuple(weight.shape) != tuple(shape):
        raise RuntimeError(
            f"torch.{name}(): if weight tensor is provided it should have the same shape as the input tensor "
            f"excluding its innermost dimension, but got {list(shape)} and {list(weight.shape)}")


@op(composite=True)
def histogram(input, bins, *, range=None, weight=None, density=False):
    """Counts in bins and the edges of the bins, which are given or evenly spaced between the limits of the data (or
    ``range``)."""
    check_histogram("histogram", input, weight, input.shape)
    points = values_of(input.detach().reshape(-1, 1))
    edges = edges_of(points, bins if isinstance(bins, int) else values_of(bins), range)
    counts = counted(points, [edges], None if weight is None else values_of(weight.detach()), density)
    return named("histogram", hist=computed(counts, input.dtype), bin_edges=computed(edges, input.dtype))


@op(composite=True, method=False)
def histogramdd(input, bins, *, range=None, weight=None, density=False):
    """Counts of points [*, d] in a grid of bins, and the edges for each of the d variables."""
    if input.dim() < 2:
        raise RuntimeError(
            f"torch.histogramdd(): input tensor should have at least 2 dimensions, but got {input.dim()}")
    check_histogram("histogramdd", input, weight, input.shape[:-1])
    size = input.size(-1)
    bins = [bins] * size if isinstance(bins, int) else list(bins)
    if len(bins) != size:
        raise RuntimeError(
            "torch.histogramdd(): The size of bins must be equal to the innermost dimension of the input, got "
            f"{len(bins)} and {size}")
    points = values_of(input.detach().reshape(-1, size)) if input.numel() else np.zeros((0, size), input.dtype.numpy)
    limits = [None if range is None else tuple(range[2 * k:2 * k + 2]) for k in np.arange(size)]
    edges = [edges_of(points[:, k], b if isinstance(b, int) else values_of(b), limit)
             for k, (b, limit) in enumerate(zip(bins, limits))]
    counts = counted(points, edges, None if weight is None else values_of(weight.detach()), density)
    return named("histogramdd", hist=computed(counts, input.dtype),
                 bin_edges=tuple(computed(e, input.dtype) for e in edges))


# --- calculus ---------------------------------------------------------------------------------------------------------
def part(x, dim, start, stop):
    return x.narrow(dim, start, x.size(dim) + stop - start) if x.size(dim) else x


def panels(name, y, x, dx, dim):
    """Twice the area under each piece of a curve."""
    if x is not None and dx is not None:
        raise RuntimeError(f"{name}() got both x and dx; give one of them")
    at = wrapped(dim, y.dim())
    if y.size(at) == 0:
        return y.sum(at, keepdim=True) * 0 if name == "trapezoid" else y
    both = part(y, at, 0, -1) + part(y, at, 1, 0)
    if x is None:
        return both * (1 if dx is None else dx)
    if x.dim() == 1:
        x = x.reshape([-1 if k == at else 1 for k in range(y.dim())])
        return both * (part(x, at, 1, 0) - part(x, at, 0, -1))
    along = wrapped(dim, x.dim())
    return both * (part(x, along, 1, 0) - part(x, along, 0, -1))


@op(composite=True, method=False, samples=(sample((3, 5)), sample((3, 5), (5,)), sample((3, 5), dx=0.5, dim=0)))
def trapezoid(y, x=None, *, dx=None, dim=-1):
    """The area under y along a dimension by trapezoids between points x, or points dx (1) apart."""
    return panels("trapezoid", y, x, dx, dim).sum(dim) / 2.0


@op(composite=True, method=False, samples=(sample((3, 5)), sample((3, 5), (5,))))
def cumulative_trapezoid(y, x=None, *, dx=None, dim=-1):
    """The cumulative area under y along a dimension."""
    return panels("cumulative_trapezoid", y, x, dx, dim).cumsum(dim) / 2.0


def slope(x, spacing, at, edge_order):
    """Second-order differences along a dimension, first or second order at the edges."""
    def cut(start, length):
        return x.narrow(at, start, length)

    n = x.size(at)
    if not is_number(spacing):
        h = (spacing[1:] - spacing[:-1]).reshape([-1 if k == at else 1 for k in range(x.dim())])
        left, right = h.narrow(at, 0, n - 2), h.narrow(at, 1, n - 2)
        inner = (-right / (left * (left + right)) * cut(0, n - 2) + (right - left) / (left * right) * cut(1, n - 2)
                 + left / (right * (left + right)) * cut(2, n - 2))
        first, last, second, before = h.narrow(at, 0, 1), h.narrow(at, n - 2, 1), h.narrow(at, min(1, n - 2),
                                                                                           1), h.narrow(
                                                                                               at, max(n - 3, 0), 1)
    else:
        inner = (cut(2, n - 2) - cut(0, n - 2)) / (2 * spacing)
        first = last = second = before = spacing
    if edge_order == 1:
        low, high = (cut(1, 1) - cut(0, 1)) / first, (cut(n - 1, 1) - cut(n - 2, 1)) / last
    else:
        low = (-(2 * first + second) / (first * (first + second)) * cut(0, 1) + (first + second) / (first * second)
               * cut(1, 1)
               - first / (second * (first + second)) * cut(2, 1))
        high = (last / (before * (before + last)) * cut(n - 3, 1) - (before + last) / (before * last) * cut(n - 2, 1)
                + (2 * last + before) / (last * (before + last)) * cut(n - 1, 1))
    return OPS["cat"]([low, inner, high], at)


@op(composite=True, method=False)
def gradient(input, *, spacing=1, dim=None, edge_order=1):
    """The slope along each of the dimensions ``dim`` (all by default), with points ``spacing`` apart or at the given
    coordinates."""
    if edge_order not in (1, 2):
        raise RuntimeError(f"torch.gradient only supports edge_order=1 and edge_order=2, got {edge_order}")
    dims = list(range(input.dim())) if dim is None else [wrapped(d, input.dim())
                                                         for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"dim {dims[0]} appears multiple times in the list of dims")
    spacing = 1 if spacing is None else spacing
    each = list(spacing) if isinstance(spacing, (tuple, list)) else [spacing] * len(dims)
    if len(each) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = "
            f"{len(dims)}', but got {len(each)}")
    x = input if input.dtype.is_inexact else input.float()
    for d in dims:
        if input.size(d) < edge_order + 1:
            raise RuntimeError(
                f"torch.gradient expected each dimension size to be at least edge_order+1, got {input.size(d)} for "
                f"dim {d}")
    return tuple(slope(x, s, d, edge_order) for d, s in zip(dims, each))
