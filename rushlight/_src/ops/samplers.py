"""Random variables drawn by NumPy's rejection samplers, at an offset in Rushlight's RNG stream."""
from __future__ import annotations

import numpy as np

from ..core.op import OPS, op
from .random import stream_for


def drawn(make, like, generator):
    """Convert ``make(stream)`` to a tensor of the dtype of ``like``."""
    from ..core.exchange import computed
    return computed(np.asarray(make(stream_for(like.numel(), generator)), dtype=np.float64), like.dtype)


@op(composite=True, method=False, sampler="batch")
def binomial(count, prob, generator=None):
    """Successes in ``count`` trials with probability ``prob`` each: both [*], of one floating dtype.

    ValueError for a probability outside [0, 1] or a negative count.
    """
    from ..core.exchange import values_of
    counts, chances = np.broadcast_arrays(values_of(count.detach()), values_of(prob.detach()))
    wide = count if count.numel() >= prob.numel() else prob
    return drawn(lambda stream: stream.binomial(counts.astype(np.int64), chances), wide.expand(counts.shape), generator)


@op(composite=True, method=False, name="_standard_gamma", sampler="batch")
def standard_gamma(input, generator=None):
    """Gamma variables of shapes ``input`` and rate 1: [*] float -> [*].  Gradient: see ``_standard_gamma_grad``."""
    from ..core.exchange import values_of
    if input.is_meta:
        sample = OPS["empty_like"](input)
    else:
        shapes = values_of(input.detach()).astype(np.float64)
        tiny = np.finfo(np.float32 if input.dtype.itemsize < 8 else np.float64).tiny
        sample = drawn(lambda stream: np.maximum(stream.standard_gamma(shapes), tiny), input, generator)
    if not input.requires_grad:
        return sample
    # of the same value, and moving with the shape
    return sample + standard_gamma_grad(input.detach(), sample) * (input - input.detach())


@op(composite=True, method=False, name="_standard_gamma_grad")
def standard_gamma_grad(input, output):
    """Derivative of a gamma variable at ``output`` with respect to its shape ``input``: minus the derivative of the
    distribution function with respect to the shape, over the density.

    Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients" (2018).  The derivative is a five-point
    difference in float64 of the smaller tail, which keeps its relative precision.
    """
    from .rearrange import to_dtype
    from ..core.dtypes import float64
    exp, lgamma, log, where = (OPS[name] for name in ("exp", "lgamma", "log", "where"))
    lower_tail, upper_tail = OPS["special.gammainc"], OPS["special.gammaincc"]
    a, x = to_dtype(input, float64), to_dtype(output, float64)
    step = a * 1e-3
    lower = x < a

    def tail(shape):
        return where(lower, lower_tail(shape, x), upper_tail(shape, x))

    slope = (8 * (tail(a + step) - tail(a - step)) - (tail(a + 2 * step) - tail(a - 2 * step))) / (12 * step)
    slope = where(lower, slope, -slope)
    density = exp((a - 1) * log(x) - x - lgamma(a))
    return to_dtype(-slope / density, output.dtype)


@op(composite=True, method=False, name="_sample_dirichlet", sampler="batch")
def sample_dirichlet(input, generator=None):
    """Dirichlet variables with concentrations ``input`` [*, k] -> [*, k]: gamma variables over their sum, rounded to
    values above 0 and below 1.

    A gamma variable of a shape a below 1 is one of the shape a + 1 times U ** (1 / a), which may be less than any
    float: shares are computed from logarithms.
    """
    from ..core.dtypes import finfo, float64
    from .random import uniform_tensor
    from .rearrange import to_dtype
    where, log = OPS["where"], OPS["log"]
    shapes = to_dtype(input.detach(), float64)
    small = shapes < 1
    chances = 1 - uniform_tensor(tuple(input.shape), float64, generator)
    logs = log(standard_gamma(shapes + to_dtype(small, float64), generator)) + where(small, log(chances) / shapes, 0)
    limits = finfo(input.dtype)
    sample = to_dtype(OPS["softmax"](logs, -1), input.dtype).clamp(limits.tiny, 1 - limits.eps / 2)
    if not input.requires_grad:
        return sample
    fixed = input.detach()
    moved = dirichlet_grad(sample, fixed, fixed.sum(-1, True).expand(fixed.shape)) * (input - fixed)
    return sample + (moved - sample * moved.sum(-1, True))  # of the same value, and moving with the concentrations


@op(composite=True, method=False, name="_dirichlet_grad")
def dirichlet_grad(x, alpha, total):
    """Derivative of a share ``x`` with respect to its concentration ``alpha``, over 1 - x: [*], [*], [*] -> [*]; the
    concentrations' sum is ``total``.

    A share is a beta variable of ``alpha`` and total - alpha.  The result is minus the derivative of its distribution
    function by ``alpha`` at a fixed rest, over the density and over 1 - x; the function's smaller tail is a series of
    positive terms, which is differentiated term by term in float64.
    """
    from ..core.dtypes import float64
    from ..core.exchange import computed, values_of
    from .rearrange import to_dtype
    digamma = OPS["digamma"]
    share, first, whole = (to_dtype(t.detach(), float64) for t in OPS["broadcast_tensors"]([x, alpha, total]))
    rises = [values_of(digamma(whole) - digamma(first + shift)) for shift in (1, 0)]
    share, first, whole = (values_of(t) for t in (share, first, whole))
    with np.errstate(all="ignore"):
        rest, logs = whole - first, np.log(share)
        low, high = (logs + rise for rise in rises)
        lower = share * whole < first
        series = tail_series(
            np.where(lower, share, 1 - share), np.where(lower, first, rest) + 1, whole, np.where(lower, low, high),
            lower
        )
        slope = np.where(lower, -share / first, share / rest) * series
    return computed(slope, x.dtype)


def tail_series(ratio, below, whole, weight, lower):
    """The sum over n of t[n] * (weight + w[n]), t[n] = ratio ** n (whole)_n / (below)_n, all float64 arrays of one
    shape.

    w[n] is how the logarithm of t[n] grows with ``whole``, and where ``lower`` holds with ``below`` as well.
    """
    term, total = np.ones_like(ratio), np.array(weight, copy=True)
    for n in range(100_000):
        term = term * ratio * (whole + n) / (below + n)
        weight = weight + 1 / (whole + n) - lower / (below + n)
        added = term * weight
        total = total + added
        if not (np.abs(added) > 1e-16 * np.abs(total)).any():
            break
    return total
