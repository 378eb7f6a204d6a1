"""Special functions: Bessel functions, tails of the normal distribution, incomplete gamma functions, orthogonal
polynomials."""
from __future__ import annotations

import math

import numpy as np

from ..core.dtypes import int64
from ..core.errors import OutOfMemoryError
from ..core.kinds import P
from ..core.op import Scalar, op
from .elementwise import ONE
from .prims.primitive import binary, unary
from .promotion import floating, promoted, result_dtype
from .scalar.arrays import meaning

NAMESPACE = "special"


def over(x, y, at_zero):
    """y / x, and ``at_zero`` if x is 0."""
    return P.where(P.eq(x, 0), at_zero, P.div(y, P.where(P.eq(x, 0), 1.0, x)))


# --- functions of one argument ----------------------------------------------------------------------------------------
unary("i0", meaning("i0"), lambda y, x: P.i1(x))
unary("i0e", meaning("i0e"), lambda y, x: P.sub(P.i1e(x), P.mul(P.sign(x), y)))
unary("i1", meaning("i1"), lambda y, x: P.sub(P.i0(x), over(x, y, 0.5)))
unary("i1e", meaning("i1e"), lambda y, x: P.sub(P.i0e(x), P.add(P.mul(y, P.sign(x)), over(x, y, 0.5))))
unary("erfcx", meaning("erfcx"), lambda y, x: P.sub(P.mul(P.mul(x, 2.0), y), 2 / math.sqrt(math.pi)))
unary("log_ndtr", meaning("log_ndtr"), lambda y, x: P.div(math.sqrt(2 / math.pi), P.erfcx(P.mul(x, -math.sqrt(0.5)))))
unary("ndtri", meaning("ndtri"), lambda y, x: P.mul(P.exp(P.mul(P.mul(y, y), 0.5)), math.sqrt(2 * math.pi)))

PLAIN = {"j0": "bessel_j0", "j1": "bessel_j1", "y0": "bessel_y0", "y1": "bessel_y1", "k0": "modified_bessel_k0",
         "k1": "modified_bessel_k1",
         "k0e": "scaled_modified_bessel_k0", "k1e": "scaled_modified_bessel_k1"}
for _name in PLAIN:
    unary(_name, meaning(_name))


unary("airy_ai", meaning("airy_ai"))
unary("spherical_j0", meaning("spherical_j0"))


def of_one(name, primitive_, doc, samples=ONE, **traits):
    def body(input):
        if input.dtype.is_complex:
            raise NotImplementedError(
                f"special.{name} is not defined for complex tensors: expected a real dtype")
        return getattr(P, primitive_)(floating(input))
    body.__name__, body.__doc__ = name, doc
    return op(body, namespace=NAMESPACE, samples=samples, **traits)


of_one("i0", "i0", "The modified Bessel function of the first kind, order 0.", method=True)
of_one("i0e", "i0e", "exp(-|x|) i0(x).")
of_one("i1", "i1", "The modified Bessel function of the first kind, order 1.")
of_one("i1e", "i1e", "exp(-|x|) i1(x).")
of_one("modified_bessel_i0", "i0", "The modified Bessel function of the first kind, order 0.", ())
of_one("modified_bessel_i1", "i1", "The modified Bessel function of the first kind, order 1.", ())
of_one("erfcx", "erfcx", "exp(x^2) erfc(x), without overflow.")
of_one("log_ndtr", "log_ndtr", "The logarithm of the normal distribution function.")
of_one("ndtri", "ndtri", "The inverse of the normal distribution function.", ())
of_one("airy_ai", "airy_ai", "The Airy function Ai.", ())
of_one("spherical_bessel_j0", "spherical_j0", "sin(x) / x.", ())
for _name, _public in PLAIN.items():
    of_one(_public, _name,
           f"The Bessel function {_public.split('bessel_')[1]}{' times exp(x)' if 'scaled' in _public else ''}.", ())


# --- functions of two -------------------------------------------------------------------------------------------------
def gamma_density(a, x):
    """x^(a - 1) exp(-x) / Gamma(a): the slope of the regularized incomplete gamma function."""
    return P.exp(P.sub(P.sub(P.mul(P.sub(a, 1.0), P.log(x)), x), P.lgamma(a)))


binary("igamma", meaning("igamma"), lambda y, a, x: (NotImplemented, gamma_density(a, x)))
binary("igammac", meaning("igammac"), lambda y, a, x: (NotImplemented, P.neg(gamma_density(a, x))))


def incomplete(name, doc):
    def body(input, other):
        x, y = promoted(input, other)
        if not result_dtype(x, y).is_floating_point:
            raise NotImplementedError(f"{name} is not implemented for {result_dtype(x, y)}: it wants floats")
        return getattr(P, name)(x, y)
    body.__name__, body.__doc__ = name, doc
    op(body, inplace_too=True)
    body.__name__ = {"igamma": "gammainc", "igammac": "gammaincc"}[name]
    return op(body, namespace=NAMESPACE)


incomplete("igamma", "The regularised lower incomplete gamma function P(input, other).")
incomplete("igammac", "The regularised upper incomplete gamma function Q(input, other).")


@op(namespace=NAMESPACE, number_first=True)
def zeta(input, other: Scalar):
    """The Hurwitz zeta function sum_k (other + k) ** -input."""
    return P.zeta(*promoted(input, other, floating=True))


@op(namespace=NAMESPACE, samples=(), method=True, inplace_too=True)
def multigammaln(input, p: int):
    """log of the multivariate gamma function: log(pi) p (p - 1) / 4 + sum_j lgamma(x - j / 2), j below p."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if p > 1 << 31:
        raise OutOfMemoryError(f"mvlgamma: a sum of {p} terms for each element", "p of at most 2**31")
    x = floating(input)
    steps = P.mul(P.convert(P.iota(size=p, dtype=int64), dtype=x.dtype), 0.5)
    terms = P.lgamma(P.sub(P.reshape(x, shape=(*x.shape, 1)), steps))
    rank = len(x.shape)
    return P.add(P.reshape(P.sum(terms, (rank,)), shape=tuple(x.shape)),
                 P.div(P.mul(P.mul(math.log(math.pi), p), p - 1), 4.0))


# --- orthogonal polynomials -------------------------------------------------------------------------------------------
def by_recurrence(first, step):
    """NumPy reference implementation of p_n(x): ``first(x)`` is p_1, ``step(x, n, p, q)`` is p_(n + 1) from p = p_n
    and q = p_(n - 1)."""
    def run(x, n):
        x, n = np.broadcast_arrays(x, n)
        order = np.trunc(np.where(np.isfinite(n), n, -1)).astype(np.int64)
        before, now = np.ones_like(x), first(x)
        out = np.where(order == 0, before, np.where(order == 1, now, 0)).astype(x.dtype)
        for k in range(1, int(order.max(initial=0))):
            before, now = now, step(x, k, now, before)
            out = np.where(order == k + 1, now, out)
        return out.astype(x.dtype)
    return run


def twice(x, n, p, q):
    return 2 * x * p - q


def shifted(first):
    """A polynomial of 2 x - 1."""
    return by_recurrence(lambda x: first(2 * x - 1), lambda x, n, p, q: 2 * (2 * x - 1) * p - q)


POLYNOMIALS = {
    "chebyshev_polynomial_t": by_recurrence(lambda x: x, twice),
    "chebyshev_polynomial_u": by_recurrence(lambda x: 2 * x, twice),
    "chebyshev_polynomial_v": by_recurrence(lambda x: 2 * x - 1, twice),
    "chebyshev_polynomial_w": by_recurrence(lambda x: 2 * x + 1, twice),
    "shifted_chebyshev_polynomial_t": shifted(lambda x: x), "shifted_chebyshev_polynomial_u": shifted(lambda x: 2 * x),
    "shifted_chebyshev_polynomial_v": shifted(lambda x: 2 * x - 1),
    "shifted_chebyshev_polynomial_w": shifted(lambda x: 2 * x + 1),
    "hermite_polynomial_h": by_recurrence(lambda x: 2 * x, lambda x, n, p, q: 2 * x * p - 2 * n * q),
    "hermite_polynomial_he": by_recurrence(lambda x: x, lambda x, n, p, q: x * p - n * q),
    "laguerre_polynomial_l": by_recurrence(lambda x: 1 - x, lambda x, n, p, q: ((2 * n + 1 - x) * p - n * q) / (n + 1)),
    "legendre_polynomial_p": by_recurrence(lambda x: x, lambda x, n, p, q: ((2 * n + 1) * x * p - n * q) / (n + 1))}


def polynomial(name, run):
    binary(name, run)

    def body(input, n: Scalar):
        return getattr(P, name)(*promoted(input, n, floating=True))
    body.__name__, body.__doc__ = (
        name, f"The {name.replace('_', ' ')} of degree n, by its three-term recurrence (Abramowitz & Stegun 22.7).")
    return op(body, namespace=NAMESPACE, number_first=True)


for _name, _run in POLYNOMIALS.items():
    polynomial(_name, _run)
