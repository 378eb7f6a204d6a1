"""Windows for spectral analysis (Harris 1978): M points, or with ``sym=False`` the first M of the M + 1 points of a
periodic window."""
from __future__ import annotations

import math

from ..core.convert import strided
from ..core.devices import placing
from ..core.dtypes import FLOATING, Defaults, float64
from ..core.op import OPS, op

NAMESPACE = "signal.windows"


def window(function):
    """Declare a window from its values at points 0 ... size - 1, computed in double precision."""
    def body(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False, **shape):
        check(function.__name__, M, dtype, layout)
        size = M if sym else M + 1
        values = function(OPS["arange"](M, dtype=float64), max(size, 2), sym, **shape)  # of one point checked alike
        out = (values if M > 1 else OPS["ones"](M, dtype=float64)).to(dtype or Defaults.floating)
        return out.requires_grad_() if requires_grad else out
    body.__name__, body.__doc__ = function.__name__, function.__doc__
    return op(placing(body), composite=True, namespace=NAMESPACE)


def check(name, M, dtype, layout):
    if layout not in (None, strided):
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if dtype is not None and (dtype.category != FLOATING or dtype.is_half):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")


def cosines(k, size, weights):
    """sum_i (-1)^i a_i cos(2 pi i k / (size - 1))."""
    total = 0
    for i, a in enumerate(weights):
        total = total + (-1) ** i * a * (k * (2 * math.pi * i / (size - 1))).cos()
    return total


@window
def general_cosine(k, size, sym, a):
    """A sum of cosines with weights a, of alternating sign."""
    if not hasattr(a, "__iter__"):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return cosines(k, size, a)


@window
def general_hamming(k, size, sym, alpha=0.54):
    """alpha - (1 - alpha) cos."""
    return cosines(k, size, (alpha, 1 - alpha))


@window
def hamming(k, size, sym):
    """0.54 - 0.46 cos (Hamming)."""
    return cosines(k, size, (0.54, 0.46))


@window
def hann(k, size, sym):
    """0.5 - 0.5 cos (von Hann)."""
    return cosines(k, size, (0.5, 0.5))


@window
def blackman(k, size, sym):
    """0.42 - 0.5 cos + 0.08 cos 2 (Blackman)."""
    return cosines(k, size, (0.42, 0.5, 0.08))


@window
def nuttall(k, size, sym):
    """Four cosines with minimal side lobes (Nuttall 1981)."""
    return cosines(k, size, (0.3635819, 0.4891775, 0.1365995, 0.0106411))


@window
def bartlett(k, size, sym):
    """A triangle that ends in zero (Bartlett)."""
    return 1 - (2 * k / (size - 1) - 1).abs()


@window
def cosine(k, size, sym):
    """Half a period of the sine."""
    return ((k + 0.5) * (math.pi / size)).sin()


@window
def exponential(k, size, sym, center=None, tau=1.0):
    """exp(-|k - center| / tau)."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    return (-(k - ((size - 1) / 2 if center is None else center)).abs() / tau).exp()


@window
def gaussian(k, size, sym, std=1.0):
    """exp(-((k - center) / std)^2 / 2)."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return (-((k - (size - 1) / 2) / std).square() / 2).exp()


@window
def kaiser(k, size, sym, beta=12.0):
    """I0(beta sqrt(1 - x^2)) / I0(beta) for x from -1 to 1 (Kaiser & Schafer 1980)."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    x = 2 * k / (size - 1) - 1
    i0 = OPS["special.i0"]
    return i0(beta * (1 - x * x).clamp_min(0).sqrt()) / i0(x.new_full((), beta))


def periodic(name, shaped, doc):
    """The top-level variant: periodic by default."""
    def body(window_length, periodic=True, *more, dtype=None, layout=None, device=None, pin_memory=False,
             requires_grad=False, **shape):
        shape.update(zip(shaped, more))
        return OPS[f"{NAMESPACE}.{name}"](window_length, sym=not periodic, dtype=dtype, requires_grad=requires_grad,
                                          **shape)
    body.__name__, body.__doc__ = f"{name}_window", doc
    return op(placing(body), composite=True, method=False)


hann_window, blackman_window = (periodic("hann", (), "signal.windows.hann, periodic."),
                                periodic("blackman", (), "signal.windows.blackman, periodic."))
bartlett_window, kaiser_window = periodic("bartlett", (),
                                          "signal.windows.bartlett, periodic."), periodic("kaiser", ("beta",),
                                                                                          "signal.windows.kaiser, "
                                                                                          "periodic.")


@op(composite=True, method=False)
@placing
def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None, layout=None, device=None,
                   pin_memory=False, requires_grad=False):
    """alpha - beta cos, periodic by default."""
    return OPS[f"{NAMESPACE}.general_cosine"](window_length, a=(alpha, beta), sym=not periodic, dtype=dtype,
                                              requires_grad=requires_grad)
