"""Special functions, windows and polynomials against torch."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

from .judge import arrays, same  # noqa: E402

POSITIVE = ("bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0",
            "scaled_modified_bessel_k1")
ANY = ("bessel_j0", "bessel_j1", "modified_bessel_i0", "modified_bessel_i1", "airy_ai", "spherical_bessel_j0")
SMOOTH = ("i0", "i0e", "i1", "i1e", "erfcx", "log_ndtr", "ndtr", "entr")
POLYNOMIALS = ("chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
               "hermite_polynomial_h", "hermite_polynomial_he",
               "laguerre_polynomial_l", "legendre_polynomial_p", "shifted_chebyshev_polynomial_t",
               "shifted_chebyshev_polynomial_w")


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth(name):
    x = arrays((4, 5))[0]
    same(lambda lib, x: getattr(lib.special, name)(x), np.abs(x) + 0.1 if name == "entr" else x, rtol=1e-6)


@pytest.mark.parametrize("name", POSITIVE + ANY)
def test_bessel(name):
    x = 3 * arrays((4, 5))[0]
    # torch has seven digits
    same(lambda lib, x: getattr(lib.special, name)(x), np.abs(x) + 0.1 if name in POSITIVE else x, gradients=False,
         rtol=1e-4)


def test_inverse_of_the_normal_distribution():
    same(lambda lib, x: lib.special.ndtri(x), np.linspace(0.01, 0.99, 20), rtol=1e-6)


def test_incomplete_gamma_and_zeta():
    a, x = (np.abs(v) + 0.5 for v in arrays((4, 5), (4, 5)))
    same(lambda lib, a, x: [lib.igamma(a.detach(), x), lib.igammac(a.detach(), x), lib.special.zeta(a.detach() + 1, x)],
         a, x, rtol=1e-6)
    same(lambda lib, x: lib.special.multigammaln(x, 3), x + 2)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    x, = arrays((7, 1))
    same(lambda lib, x, n: getattr(lib.special, name)(x, n), x, np.arange(-1, 6), gradients=False)


WINDOWS = {"bartlett": {}, "blackman": {}, "cosine": {}, "exponential": {"tau": 0.7}, "gaussian": {"std": 0.8},
           "general_cosine": {"a": [0.5, 0.3, 0.2]},
           "general_hamming": {"alpha": 0.6}, "hamming": {}, "hann": {}, "kaiser": {"beta": 6.0}, "nuttall": {}}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name):
    for size in (0, 1, 6, 7):
        for sym in (True, False):
            same(lambda lib: getattr(lib.signal.windows, name)(size, sym=sym, dtype=lib.float64, **WINDOWS[name]),
                 rtol=1e-9)
    with pytest.raises(ValueError):
        getattr(rushlight.signal.windows, name)(-1, **WINDOWS[name])


def test_windows_at_the_top_level():
    for name in ("hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window"):
        same(lambda lib: getattr(lib, name)(9), rtol=1e-5, atol=1e-6)


def test_ends_of_domains():
    same(lambda lib, x: [lib.log1p(x), lib.log(x + 1), lib.atanh(x)], np.array([-1.0, -2.0, 0.0, 1.0, np.inf]),
         gradients=False)
    same(lambda lib, x: [2 ** x, lib.pow(lib.tensor([1, -1, 3, -1]), x)], np.array([-1, -2, 2, -3]), gradients=False)
    same(lambda lib, x: lib.nn.functional.tanhshrink(x), np.array([1, -2, 3]), gradients=False, rtol=1e-5)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "zeta"])
def test_derivatives_that_nobody_has_written(name):
    """They raise where they are wanted, backward and forward, and only there."""
    for lib in (rushlight, torch):
        call, shapes, x = getattr(lib.special,
                                  name), lib.tensor([1.5, 2.5], requires_grad=True), lib.tensor(
                                      [0.5, 2.0], requires_grad=True)
        call(shapes.detach(), x).sum().backward()
        assert x.grad.isfinite().all()
        with pytest.raises(NotImplementedError, match="derivative|derivative for"):
            call(shapes, x).sum().backward()
    with pytest.raises(NotImplementedError, match="derivative"):
        rushlight.func.jvp(lambda s: getattr(rushlight.special, name)(s, 2.0 + s.detach() * 0),
                           (rushlight.ones(2) + 1,), (rushlight.ones(2),))


@pytest.mark.parametrize("name", ["i0", "i1e", "erfcx", "ndtri", "log_ndtr", "bessel_j1", "modified_bessel_k0",
                                  "airy_ai", "entr", "gammaln", "psi"])
def test_complex_numbers_are_refused(name):
    for lib in (rushlight, torch):
        with pytest.raises(NotImplementedError):
            getattr(lib.special, name)(lib.ones(2, dtype=lib.complex64))


@pytest.mark.parametrize("n", range(5))
def test_polygamma(n):
    same(lambda lib, x: lib.polygamma(n, x),
         np.array([0.3, 1.0, 2.5, 9.0, 40.0, -0.3, -1.5, -7.2] if n == 1 else [0.3, 1.0, 2.5, 9.0, 40.0]), rtol=1e-9)
