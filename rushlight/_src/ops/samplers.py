"""Random variables that are drawn by a library's rejection samplers, from a place in our stream."""
from __future__ import annotations

import numpy as np

from ..core.op import OPS, op
from .random import stream_for


def drawn(make, like, generator):
    """``make(stream)`` as a tensor of the dtype of ``like``."""
    from ..core.exchange import from_array
    return from_array(np.asarray(make(stream_for(like.numel(), generator)), dtype=np.float64), like.dtype)


@op(composite=True, method=False)
def binomial(count, prob, generator=None):
    """Successes in ``count`` trials with probability ``prob`` each: both [*], of one floating dtype.

    ValueError for a probability outside [0, 1] or a negative count.
    """
    from ..core.exchange import values_of
    counts, chances = np.broadcast_arrays(values_of(count.detach()), values_of(prob.detach()))
    wide = count if count.numel() >= prob.numel() else prob
    return drawn(lambda stream: stream.binomial(counts.astype(np.int64), chances), wide.expand(counts.shape), generator)


@op(composite=True, method=False, name="_standard_gamma")
def standard_gamma(input, generator=None):
    """Gamma variables of shapes ``input`` and rate 1: [*] float -> [*].  Gradient: see ``_standard_gamma_grad``."""
    from ..core.exchange import values_of
    shapes = values_of(input.detach()).astype(np.float64)
    tiny = np.finfo(np.float32 if input.dtype.itemsize < 8 else np.float64).tiny
    sample = drawn(lambda stream: np.maximum(stream.standard_gamma(shapes), tiny), input, generator)
    if not input.requires_grad:
        return sample
    return sample + standard_gamma_grad(input.detach(), sample) * (input - input.detach())  # of the same value, and moving with the shape


@op(composite=True, method=False, name="_standard_gamma_grad")
def standard_gamma_grad(input, output):
    """How a gamma variable at ``output`` moves with its shape ``input``: minus the derivative of the distribution function by the shape, over the density.

    Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients" (2018).  The derivative is a five-point difference in
    float64 of the smaller tail, which keeps its relative precision.
    """
    from .shape import to_dtype
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


@op(composite=True, method=False, name="_sample_dirichlet")
def sample_dirichlet(input, generator=None):
    """Dirichlet variables with concentrations ``input`` [*, k] -> [*, k]: gamma variables over their sum, rounded to numbers above 0 and below 1.

    A gamma variable of a shape a below 1 is one of the shape a + 1 times U ** (1 / a), which may be less than any float: shares are computed from logarithms.
    """
    from ..core.dtypes import finfo, float64
    from .random import uniform_tensor
    from .shape import to_dtype
    where, log = OPS["where"], OPS["log"]
    shapes = to_dtype(input, float64)
    small = shapes.detach() < 1
    chances = 1 - uniform_tensor(tuple(input.shape), float64, generator)
    logs = log(standard_gamma(shapes + to_dtype(small, float64), generator)) + where(small, log(chances) / shapes, 0)
    limits = finfo(input.dtype)
    return to_dtype(OPS["softmax"](logs, -1), input.dtype).clamp(limits.tiny, 1 - limits.eps / 2)
