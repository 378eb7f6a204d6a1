"""Special functions of scalars, by kernels and by their NumPy reference implementation, against mpmath in units of
the last place."""
import numpy as np
import pytest

from rushlight._src.ops.scalar import HOME
from rushlight._src.ops.scalar.arrays import meaning

from ..compiler.programs import compute

mp = pytest.importorskip("mpmath")

pytestmark = pytest.mark.sampled  # all cases with `-m long`
rng = np.random.default_rng(0)


def spread(low, high, count=40):
    """Numbers that are close together near 0 and far apart elsewhere."""
    return np.exp(rng.uniform(np.log(low), np.log(high), count))


def even(low, high, count=60):
    return rng.uniform(low, high, count)


def mirrored(x):
    return np.concatenate([x, -x])


def inverse(f, slope, start):
    """The number at which ``f``, a function that never turns, has a value."""
    def run(value):
        x = start(value)
        for _ in range(100):
            step = (f(x) - value) / slope(x)
            x -= step
            if abs(step) < mp.mpf(10) ** -45:
                break
        return x
    return run


def scaled_complement(x):
    return mp.exp(x * x) * mp.erfc(x) if x < 50 else (1 - 1 / (2 * x * x) + 3 / (4 * x ** 4)) / (x * mp.sqrt(mp.pi))


def lower_gamma(a, x):
    term = total = mp.mpf(1)
    n = 0
    while term > total * mp.mpf(10) ** -mp.mp.dps:
        n += 1
        term *= x / (a + n)
        total += term
    return total * mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1))


def upper_gamma(a, x):
    with mp.workdps(140):
        return 1 - lower_gamma(a, x)


def hurwitz(s, q):
    """By summing, as mpmath's own loses digits; left of 0 too."""
    count = 60 + max(0, int(-q) + 1)
    end = q + count
    rest = sum(mp.bernoulli(2 * j) / mp.factorial(2 * j) * mp.rf(s, 2 * j - 1) * end ** (1 - s - 2 * j)
               for j in range(1, 22))
    return sum((q + k) ** -s for k in range(count)) + end ** (1 - s) / (s - 1) + end ** -s / 2 + rest


def envelope(x):
    """How large a Bessel function of x swings: what its error is measured by, beyond its first zeros."""
    return np.sqrt(2 / np.pi / np.maximum(np.abs(x), 1)) * (np.abs(x) > 0.5)


ANY = mirrored(np.concatenate([even(0, 12), spread(1e-300, 700)]))
RIGHT = np.concatenate([even(0, 12), spread(1e-300, 700)])
SWINGING = np.concatenate([even(0, 6), even(5, 100), spread(1e-200, 1e5)])
SHAPES = np.concatenate([spread(1e-4, 30), spread(20, 2000), even(0.01, 0.5, 40)])
PROBABLE = np.concatenate([even(0, 1), spread(1e-300, 0.1), 1 - spread(1e-15, 0.1)])

CASES = {  # what it is, where, and the scale of errors where the value vanishes
    "erf": (mp.erf, [ANY]), "erfc": (mp.erfc, [np.concatenate([even(-6, 26), ANY[np.abs(ANY) < 26]])]),
    "erfcx": (scaled_complement, [np.concatenate([even(-26, 40), spread(1e-10, 1e300)])]),
    "erfinv": (inverse(mp.erf, lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x), lambda v: v), [even(-0.9, 0.9)]),
    "log_ndtr": (lambda x: mp.log(mp.ncdf(x)) if x < 5 else mp.log1p(-mp.ncdf(-x)),
                 [np.concatenate([even(-38, 37), even(-3, 3)])]),
    "lgamma": (lambda x: mp.loggamma(x).real,
               [np.concatenate([RIGHT, spread(1, 1e300), 1 + mirrored(spread(1e-14, 0.1)),
                                2 + mirrored(spread(1e-14, 0.1))])]),
    "digamma": (mp.digamma, [np.concatenate([RIGHT, spread(1, 1e300)])]),
    "zeta": (hurwitz, [np.concatenate([even(1.01, 40), 1 + spread(1e-6, 1)]), spread(1e-3, 1e4, 100)]),
    "i0": (lambda x: mp.besseli(0, x), [ANY]), "i0e": (lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), [ANY]),
    "i1": (lambda x: mp.besseli(1, x), [ANY]), "i1e": (lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), [ANY]),
    "k0": (lambda x: mp.besselk(0, x), [RIGHT]), "k0e": (lambda x: mp.besselk(0, x) * mp.exp(x), [RIGHT]),
    "k1": (lambda x: mp.besselk(1, x), [RIGHT]), "k1e": (lambda x: mp.besselk(1, x) * mp.exp(x), [RIGHT]),
    "j0": (lambda x: mp.besselj(0, x), [SWINGING], envelope), "j1": (lambda x: mp.besselj(1, x), [SWINGING], envelope),
    "y0": (lambda x: mp.bessely(0, x), [SWINGING], envelope), "y1": (lambda x: mp.bessely(1, x), [SWINGING], envelope),
    "spherical_j0": (lambda x: mp.sin(x) / x, [ANY], lambda x: (np.abs(x) > 2) / np.maximum(np.abs(x), 1)),
    "airy_ai": (mp.airyai, [np.concatenate([even(-20, 20), even(-4, 2), spread(1, 100), -spread(1, 1000)])],
                lambda x: (x < -1.5) * np.maximum(np.abs(x), 1) ** -0.25 / 2),
    "igamma": (lower_gamma, [SHAPES, SHAPES * even(0.4, 1.6, len(SHAPES))]),
    "igammac": (upper_gamma, [SHAPES, SHAPES * even(0.4, 1.6, len(SHAPES)) + 0.02]),
    "pow": (mp.power, [np.concatenate([spread(1e-100, 1e100), 1 + even(-0.3, 0.3)]),
                       np.concatenate([even(-3, 3, 40), even(-1000, 1000)])]),
    "ndtri": (inverse(mp.ncdf, mp.npdf, lambda p: (p - 0.5) * 2), [even(0.1, 0.9)]),
}


def exactly(name, arguments):
    with mp.workdps(60):
        return [CASES[name][0](*(mp.mpf(float(a)) for a in given)) for given in zip(*arguments)]


def ulps(name, found, exact, arguments):
    """Errors in units of the last place of the value (or of the scale, where that is larger); of what is less than any
    normal number none."""
    scale = CASES[name][2](arguments[0]) if len(CASES[name]) > 2 else np.zeros(len(found))
    least = np.finfo(found.dtype).tiny
    sizes = np.maximum(np.abs(np.array([float(e) for e in exact])), scale)
    unit = np.spacing(np.clip(sizes, least, np.finfo(found.dtype).max / 2).astype(found.dtype)).astype(float)
    with mp.workdps(60):
        errors = np.array([float(abs(mp.mpf(float(f)) - e)) for f, e in zip(found, exact)])
    return np.where((sizes < least) | (sizes > np.finfo(found.dtype).max), 0, errors / unit)


def test_every_function_is_measured():
    assert set(CASES) | {"poisson_quantile"} == set(HOME)


@pytest.mark.parametrize("rate", [1e-8, 0.5, 20.0, 63.9, 64.1, 500.0, 1e6])
def test_quantiles_of_poisson_variables(rate):
    stats = pytest.importorskip("scipy.stats")
    u = np.concatenate([rng.random(500), 10 ** -even(0, 13), 1 - 10 ** -even(0, 13)])
    for found in (compute(lambda p, *a: p.poisson_quantile(*a), u, np.full(u.shape, rate)),
                  meaning("poisson_quantile")(u, np.full(u.shape, rate))):
        np.testing.assert_array_equal(found, stats.poisson.ppf(u, rate))


@pytest.mark.parametrize("name", CASES)
def test_accuracy(name):
    arguments = CASES[name][1]
    exact = exactly(name, arguments)
    for found in (compute(lambda p, *a: getattr(p, name)(*a), *arguments), meaning(name)(*arguments)):
        assert ulps(name, found, exact, arguments).max() <= 4.5
    if name not in ("pow", "erf", "erfc", "erfinv"):  # which have forms of their own for float32
        keep = np.all([(np.abs(a) > 1e-30) & (np.abs(a) < 1e30) for a in arguments], 0)
        singles = [a[keep].astype(np.float32) for a in arguments]
        assert ulps(name, compute(lambda p, *a: getattr(p, name)(*a), *singles), exactly(name, singles),
                    singles).max() <= 1


def test_ends_of_the_inverse_functions():
    """Far out in the tails: what comes out leads back, within what the slope makes of half a unit."""
    p = np.concatenate([spread(1e-300, 0.1), [5e-324, 1e-310]])
    with mp.workdps(60):
        for value, x in zip(p, compute(lambda q, a: q.ndtri(a), p)):
            f = mp.mpf(float(x))
            assert abs(mp.log(mp.ncdf(f))
                       - mp.log(mp.mpf(float(value)))) <= 4 * np.spacing(-x) * mp.npdf(f) / mp.ncdf(f)
        for rest in spread(1e-15, 0.1):
            value = 1 - rest
            x = compute(lambda q, a: q.erfinv(a), np.array([value]))[0]
            f = mp.mpf(float(x))
            assert abs(mp.erf(f) - mp.mpf(float(value))) <= 4 * np.spacing(x) * 2 / mp.sqrt(mp.pi) * mp.exp(-f * f)


ENDS = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -2, 0.5, -0.5, 1e-310, 1e300, -1e300, 150.0])


@pytest.mark.parametrize("name", [n for n in CASES if len(CASES[n][1]) == 1])
def test_kernels_and_meaning_at_the_ends(name):
    np.testing.assert_allclose(compute(lambda p, a: getattr(p, name)(a), ENDS[:12]), meaning(name)(ENDS[:12]),
                               rtol=1e-15)
    assert np.isnan(meaning(name)(np.array([np.nan]))).all()


def test_powers_at_the_ends():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1e308, 5e-324, -5e-324])
    a, b = np.repeat(x, len(x)), np.tile(x, len(x))
    with np.errstate(all="ignore"):
        wanted = np.power(a, b)
    for found in (compute(lambda p, v, w: p.pow(v, w), a, b), meaning("pow")(a, b)):
        np.testing.assert_allclose(found, wanted, rtol=1e-15)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted) & ~np.isnan(wanted) | np.isnan(wanted)
                                      & np.signbit(found))
    whole = np.arange(1.0, 30)
    np.testing.assert_array_equal(compute(lambda p, v, w: p.pow(v, w), whole, np.full(29, 5.0)), whole**5)
