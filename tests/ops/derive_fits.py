"""Where the numbers of ``rushlight/_src/ops/scalar/fits.py`` come from:
``python -m tests.ops.derive_fits > rushlight/_src/ops/scalar/fits.py``.

Each function is sampled by mpmath with 50 digits at the Chebyshev points of an interval, which is halved until few
enough terms leave a relative error below 2^-57.
"""
import functools
import textwrap

import mpmath as mp

mp.mp.dps = 50
NODES, MOST = 36, 19  # points of an interval, and terms of a polynomial at most
HEADER = '''"""Polynomials that special functions consist of: written by ``python -m tests.ops.derive_fits``, which says what each one fits.

A name stands for pieces (low, high, coefficients): between low and high the value is c[0] + c[1] t + ..., t going from -1 to 1.
"""

FITS = {'''


def chebyshev(f, low, high):
    """The coefficients of a sum of Chebyshev polynomials in t, and the least magnitude of f."""
    middle, half = (mp.mpf(high) + low) / 2, (mp.mpf(high) - low) / 2
    angles = [mp.pi * (k + mp.mpf(1) / 2) / NODES for k in range(NODES)]
    values = [f(middle + half * mp.cos(a)) for a in angles]
    found = [2 * sum(v * mp.cos(j * a) for v, a in zip(values, angles)) / NODES for j in range(NODES)]
    found[0] /= 2
    return found, min(abs(v) for v in values)


def powers(coefficients):
    """The same sum in powers of t."""
    out, before, now = [mp.mpf(0)] * len(coefficients), [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for c in coefficients:
        for k, p in enumerate(before):
            out[k] += c * p
        after = [mp.mpf(0)] + [2 * p for p in now]
        for k, p in enumerate(before):
            after[k] -= p
        before, now = now, after
    return out


def pieces(f, low, high, scale=None):
    found, least = chebyshev(f, low, high)
    least = least if scale is None else mp.mpf(scale)
    rest = mp.mpf(0)
    count = NODES
    while count > 1 and rest + abs(found[count - 1]) < least * mp.mpf(2) ** -57:
        count -= 1
        rest += abs(found[count])
    if count <= MOST:
        return [(float(low), float(high), [float(c) for c in powers(found[:count])])]
    middle = (mp.mpf(low) + high) / 2
    return pieces(f, low, middle, scale) + pieces(f, middle, high, scale)


def erfcx(x):
    return mp.exp(x * x) * mp.erfc(x) if x < 40 else sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k
                                                         for k in range(0, 30)) / (x * mp.sqrt(mp.pi))


def over_erfcx(t):
    x = 2 * (1 + t) / (1 - t)
    return (1 + 2 * x) * erfcx(x)


def erfinv_slope(w):
    """erfinv(v) / v where v^2 = 1 - e^-w."""
    if w == 0:
        return mp.sqrt(mp.pi) / 2
    v = mp.sqrt(-mp.expm1(-w))
    rest = mp.exp(-w) / (1 + v)  # 1 - v
    x = mp.erfinv(v) if w < 1 else mp.sqrt(w)
    with mp.workdps(60):
        for _ in range(200):
            g = mp.log(mp.erfc(x)) - mp.log(rest)
            step = g / (-2 / mp.sqrt(mp.pi) * mp.exp(-x * x) / mp.erfc(x))
            x -= step
            if abs(step) < mp.mpf(10) ** -50 * x:
                break
    return x / v


def removable(f, limit):
    return lambda x: mp.mpf(limit) if x == 0 else f(x)


@functools.lru_cache(None)
def hankel(n, x):
    """P and Q of Bessel functions: J = sqrt(2 / (pi x)) (P cos - Q sin)(x - (2 n + 1) pi / 4)."""
    angle, size = x - (2 * n + 1) * mp.pi / 4, mp.sqrt(mp.pi * x / 2)
    j, y = mp.besselj(n, x), mp.bessely(n, x)
    return size * (j * mp.cos(angle) + y * mp.sin(angle)), size * (y * mp.cos(angle) - j * mp.sin(angle))


FAR = 5  # from where on Bessel functions are said by phases


def far(n, which):
    def run(v):
        x = FAR / mp.sqrt(v)
        return hankel(n, x)[which] * (x if which else 1)
    return run


def without(n, zeros):
    """A Bessel function J by its zeros, in z = x^2."""
    def run(z):
        x = mp.sqrt(z)
        out = mp.besselj(n, x) / (x if n else 1) if z else mp.mpf(1) / (2 if n else 1)
        for k in range(1, zeros + 1):
            out /= z - mp.besseljzero(n, k) ** 2
        return out
    return run


def second(n):
    """What is left of Y beside logarithms (and -2 / (pi x)), in z = x^2."""
    def run(z):
        x = mp.sqrt(z)
        log = 2 / mp.pi * mp.log(x) * mp.besselj(n, x)
        return (mp.bessely(n, x) - log) if n == 0 else (mp.bessely(1, x) - log + 2 / (mp.pi * x)) / x
    return run


def modified(n):
    """What is left of K beside logarithms (and 1 / x), in z = x^2."""
    def run(z):
        x = mp.sqrt(z)
        log = mp.log(x / 2) * mp.besseli(n, x)
        return mp.besselk(0, x) + log if n == 0 else (mp.besselk(1, x) - log - 1 / x) / x
    return run


def airy_phase(which):
    """Of the Airy function left of 0, in v = 1 / zeta^2: Ai(-x) = (P cos + Q sin)(zeta - pi / 4) / (sqrt(pi) x^(1/4)),
    Q by zeta."""
    def run(v):
        zeta = 1 / mp.sqrt(v)
        x = (3 * zeta / 2) ** (mp.mpf(2) / 3)
        size, angle = mp.sqrt(mp.pi) * mp.sqrt(mp.sqrt(x)), zeta - mp.pi / 4
        a, b = mp.airyai(-x) * size, mp.airybi(-x) * size
        return a * mp.cos(angle) - b * mp.sin(angle) if which == 0 else (a * mp.sin(angle) + b * mp.cos(angle)) * zeta
    return run


def airy_right(v):
    """Ai(x) 2 sqrt(pi) x^(1/4) e^zeta, in v = 1 / zeta."""
    zeta = 1 / v
    x = (3 * zeta / 2) ** (mp.mpf(2) / 3)
    return mp.airyai(x) * 2 * mp.sqrt(mp.pi) * mp.sqrt(mp.sqrt(x)) * mp.exp(zeta)


ROOT = mp.findroot(mp.digamma, 1.46)


def stirling(v):
    """lgamma(x) - (x - 1/2) log x + x - log(2 pi) / 2 times x, in v = 1 / x^2."""
    x = 1 / mp.sqrt(v)
    with mp.workdps(90):
        return x * (mp.loggamma(x) - (x - mp.mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2)


def digamma_far(v):
    """(digamma(x) - log x + 1 / (2 x)) x^2, in v = 1 / x^2."""
    x = 1 / mp.sqrt(v)
    with mp.workdps(90):
        return (mp.digamma(x) - mp.log(x) + 1 / (2 * x)) * x * x


def rest_of_gamma(u):
    """Gamma(a + 1) e^a (a + 1)^-(a + 1/2), in u = 1 / (a + 1)."""
    a = 1 / u - 1
    return mp.exp(mp.loggamma(a + 1) + a - (a + mp.mpf(1) / 2) * mp.log(a + 1))


@functools.lru_cache(None)
def uniform(k, order=80):
    """The powers of eta in the k-th function of the uniform expansion of incomplete gamma functions (DLMF 8.12.9), and
    those of 1 / mu by eta."""
    if k == 0:
        mu = [mp.mpf(0), mp.mpf(1)]  # eta^2 / 2 = mu - log(1 + mu), so that mu mu' = eta (1 + mu)
        for n in range(2, order + 2):
            known = sum((j + 1) * mu[j + 1] * mu[n - j] for j in range(1, n - 1))
            mu.append((mu[n - 1] - known) / (n + 1))
        inverse = [mp.mpf(1)]
        for n in range(1, order):
            inverse.append(-sum(mu[j + 1] * inverse[n - j] for j in range(1, n + 1)))
        return inverse[1:], inverse
    before, inverse = uniform(k - 1)
    slope = [(j + 1) * c for j, c in enumerate(before[1:])]  # times 1 / eta, whose first term goes with that of 1 / mu
    return [a - slope[0] * b for a, b in zip(slope[1:], inverse[1:])], inverse


def uniform_at(k):
    return lambda eta: mp.polyval(uniform(k)[0][::-1], eta)


TABLE = {
    "rest_of_gamma": (rest_of_gamma, 0, 1),
    **{f"uniform_{k}": (uniform_at(k), -0.65625, 0.65625, mp.mpf(20) ** k / 4) for k in range(13)},
    "erf": (lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z), 0, 1),
    "erfcx": (over_erfcx, -1, 1),
    "erfinv_near": (erfinv_slope, 0, 6.25), "erfinv_far": (lambda s: erfinv_slope(s * s), 2.5, 28),
    "i0e_near": (lambda x: mp.exp(-x) * mp.besseli(0, x), 0, 8),
    "i0e_far": (lambda u: mp.exp(-1 / u) * mp.besseli(0, 1 / u) / mp.sqrt(u), 0, 0.125),
    "i1e_near": (lambda x: mp.exp(-x) * mp.besseli(1, x) / x, 0, 8),
    "i1e_far": (lambda u: mp.exp(-1 / u) * mp.besseli(1, 1 / u) / mp.sqrt(u), 0, 0.125),
    "k0_near": (modified(0), 0, 1), "k0e_far": (lambda u: mp.exp(1 / u) * mp.besselk(0, 1 / u) / mp.sqrt(u), 0, 1),
    "k1_near": (modified(1), 0, 1), "k1e_far": (lambda u: mp.exp(1 / u) * mp.besselk(1, 1 / u) / mp.sqrt(u), 0, 1),
    "j0_near": (without(0, 1), 0, 25), "j0_p": (far(0, 0), 0, 1), "j0_q": (far(0, 1), 0, 1),
    "j1_near": (without(1, 1), 0, 25), "j1_p": (far(1, 0), 0, 1), "j1_q": (far(1, 1), 0, 1),
    "y0_near": (second(0), 0, 25, 1), "y1_near": (second(1), 0, 25, 0.02),
    "airy_middle": (mp.airyai, -4, 2, 0.1), "airy_right": (airy_right, 0, 0.53125),
    "airy_p": (airy_phase(0), 0, 0.0351), "airy_q": (airy_phase(1), 0, 0.0351),
    "lgamma_1": (removable(lambda z: mp.loggamma(1 + z) / z, -mp.euler), -0.5, 0.5),
    "lgamma_2": (removable(lambda z: mp.loggamma(2 + z) / z, 1 - mp.euler), -0.5, 0.5),
    "lgamma_middle": (mp.loggamma, 2.5, 8), "stirling": (stirling, 0, 1 / 64),
    "digamma_root": (lambda x: mp.digamma(x) / (x - ROOT) if x != ROOT else mp.polygamma(1, ROOT), 1, 2),
    "digamma_middle": (mp.digamma, 2, 8), "digamma_far": (digamma_far, 0, 1 / 64),
}


def main():
    print(HEADER)
    for name, (f, *interval) in TABLE.items():
        print(f'    "{name}": (')
        for low, high, coefficients in pieces(f, *interval):
            text = f"({low!r}, {high!r}, ({', '.join(map(repr, coefficients))},)),"
            print(textwrap.indent(textwrap.fill(text, 116, break_long_words=False, break_on_hyphens=False), "        "))
        print("    ),")
    print("}")
    print(f"DIGAMMA_ROOT = {float(ROOT)!r}, {float(ROOT - mp.mpf(float(ROOT)))!r}")
    for name, n in (("J0", 0), ("J1", 1)):
        root = mp.besseljzero(n, 1)
        print(f"{name}_ROOT = {float(root)!r}, {float(root - mp.mpf(float(root)))!r}")


if __name__ == "__main__":
    main()
