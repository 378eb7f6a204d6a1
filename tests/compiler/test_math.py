"""Accuracy of the transcendental functions against exact values, in units of the last place."""

import math

import numpy as np
import pytest

from rushlight._src.core import dtypes

from .programs import Program, compute

pytestmark = pytest.mark.processor

special = pytest.importorskip("scipy.special")

FUNCTIONS = {
    "exp": (np.exp, -87, 88, 2), "exp2": (np.exp2, -120, 120, 2), "expm1": (np.expm1, -20, 80, 2),
    "log": (np.log, 1e-37, 1e30, 2),
    "log2": (np.log2, 1e-37, 1e30, 2), "log10": (np.log10, 1e-37, 1e30, 2), "log1p": (np.log1p, -0.99, 1e5, 2),
    "sin": (np.sin, -1000, 1000, 2), "cos": (np.cos, -1000, 1000, 2), "tan": (np.tan, -100, 100, 2),
    "sinh": (np.sinh, -80, 80, 2),
    "cosh": (np.cosh, -80, 80, 2), "tanh": (np.tanh, -12, 12, 3), "asinh": (np.arcsinh, -1e5, 1e5, 2),
    "acosh": (np.arccosh, 1, 1e5, 2),
    "atanh": (np.arctanh, -0.999, 0.999, 2), "sigmoid": (special.expit, -80, 80, 3), "erf": (special.erf, -5, 5, 3),
    "erfc": (special.erfc, -5, 9.1, 2), "erfinv": (special.erfinv, -0.99999994, 0.99999994, 2),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-30, 1e30, 2), "asin": (np.arcsin, -1, 1, 2), "acos": (np.arccos, -1, 1, 2),
    "atan": (np.arctan, -1e4, 1e4, 2)}
# those in double precision: tests/ops/test_scalar.py
DOUBLE = {k: v for k, v in FUNCTIONS.items() if k not in ("erf", "erfc", "erfinv")}


def points(low, high, dtype, count=20011):
    rng = np.random.default_rng(1)
    even = np.linspace(low, high, count)
    small = np.exp(rng.uniform(-20, np.log(max(abs(low), abs(high))), count)) * rng.choice([-1, 1], count)
    return np.concatenate([even, np.clip(small, low, high)]).astype(dtype)


def ulps(found, exact):
    spacing = np.spacing(np.abs(exact).astype(found.dtype)).astype(np.longdouble)
    return float(np.max(np.abs(found.astype(np.longdouble) - exact) / spacing))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32(name):
    exact, low, high, limit = FUNCTIONS[name]
    x = points(low, high, np.float32)
    found = compute(lambda p, a: getattr(p, name)(a), x)
    assert ulps(found, exact(x.astype(np.float64)).astype(np.longdouble)) <= limit


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("size", [9e4, 1e9])
def test_many_turns(name, size):
    """Beyond 1e5 the reduction goes through double precision, lane by lane where wanted."""
    x = points(-size, size, np.float32)
    found = compute(lambda p, a: getattr(p, name)(a), x)
    assert ulps(found, FUNCTIONS[name][0](x.astype(np.float64)).astype(np.longdouble)) <= 2


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_turns(name, dtype):
    """As far as numbers go: all digits of pi that matter are used."""
    mp = pytest.importorskip("mpmath")
    x = np.concatenate([np.exp(np.random.default_rng(0).uniform(30, np.log(np.finfo(dtype).max), 60)),
                        [1e22, -1e22, 1e15,
                         6381956970095103 * 2.0**(797 if dtype is np.float64 else 50)]]).astype(dtype)
    found = compute(lambda p, a: getattr(p, name)(a), x)
    with mp.workdps(400):
        exact = np.array([float(getattr(mp, name)(mp.mpf(float(v)))) for v in x])
    assert (np.abs(found - exact) <= 2 * np.spacing(np.abs(exact).astype(dtype))).all()
    assert np.isnan(compute(lambda p, a: getattr(p, name)(a), np.array([np.inf, -np.inf, np.nan], dtype))).all()


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("turns", [1, 2.0**54])
def test_angles_of_random_words_need_no_code_for_many_turns(name, dtype, turns):
    """Unless words times a constant may be large; values are those of the same angles in memory."""
    p = Program()
    seed, offset = (p.input((), dtypes.int64, weak=True) for _ in range(2))
    words = p.convert(p.random_bits(seed, offset, shape=(300,)), dtype=dtype)
    angles = p.mul(words, turns * 2 * math.pi * 2.0**-32)
    given, found = p.run([angles, getattr(p, name)(angles)], [17, 0])
    kernels = " ".join(str(step.kernel) for step in p.program.steps)
    assert (f"{name}_of_moderate" in kernels) == (turns == 1), kernels
    np.testing.assert_array_equal(found, compute(lambda q, a: getattr(q, name)(a), given))


@pytest.mark.parametrize("name", DOUBLE)
def test_float64(name):
    exact, low, high, _ = DOUBLE[name]
    x = points(low, high, np.float64)
    found = compute(lambda p, a: getattr(p, name)(a), x)
    wide = np.longdouble if name not in ("sigmoid",) else np.float64
    assert ulps(found, exact(x.astype(wide)).astype(np.longdouble)) <= 4


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf", "sin", "expm1", "log1p", "asinh", "erfc"])
def test_special_values(name):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, -3e38], np.float32)
    found = compute(lambda p, a: getattr(p, name)(a), x)
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[name][0](x.astype(np.float64)).astype(np.float32)
    if name == "sin":
        found, wanted = found[:6], wanted[:6]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-37)
    np.testing.assert_array_equal(np.signbit(found[:2]), np.signbit(wanted[:2]))


def test_ends_of_the_inverse_error_function():
    found = compute(lambda p, a: p.erfinv(a), np.array([1, -1, 1.5, np.nan, -0.0], np.float32))
    np.testing.assert_array_equal(found, np.array([np.inf, -np.inf, np.nan, np.nan, 0], np.float32))
    assert np.signbit(found[4])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hypot(dtype):
    x, y = points(-1e19, 1e19, dtype), points(-1e3, 1e3, dtype)[::-1].copy()
    for a, b in ((x, y), (y, x), (y, y)):
        exact = np.hypot(a.astype(np.longdouble), b.astype(np.longdouble))
        assert ulps(compute(lambda p, v, w: p.hypot(v, w), a, b), exact) <= (1 if dtype is np.float32 else 2)
    large = np.array([np.finfo(dtype).max / 2, 0, -0.0, np.inf, np.nan, -np.inf, np.finfo(dtype).tiny], dtype)
    a, b = np.repeat(large, 7), np.tile(large, 7)
    np.testing.assert_allclose(compute(lambda p, v, w: p.hypot(v, w), a, b), np.hypot(a, b), rtol=1e-6)
