"""Linear algebra that NumPy lacks: triangular solves, LU, the matrix exponential.  Arrays in, arrays out, any batch."""
from __future__ import annotations

import math

import numpy as np

from . import openblas

BLOCK = 32


class LinAlgError(RuntimeError):
    """A matrix for which an algorithm has no result: singular, not positive definite, not convergent."""


def conjugate(x):
    """The conjugate transpose of the last two dimensions."""
    return np.conj(np.swapaxes(x, -1, -2))


def substitute(a, b, upper: bool, unit: bool):
    """x with ``a @ x = b`` for triangular a [*, n, n], b [*, n, k]."""
    count = math.prod(b.shape[:-2])
    found = openblas.substitute(a.reshape(count, *a.shape[-2:]), b.reshape(count, *b.shape[-2:]), upper,
                                unit) if a.shape[:-2] == b.shape[:-2] else None
    return by_halves(a, b, upper, unit) if found is None else found.reshape(b.shape)


def by_halves(a, b, upper: bool, unit: bool):
    """``substitute``, computed mostly by matmul."""
    n = a.shape[-1]
    if n <= 1:
        return b if unit or not n else b / a
    half = n // 2
    first, last = np.s_[..., :half, :], np.s_[..., half:, :]
    top, bottom = a[..., :half, :half], a[..., half:, half:]
    if upper:
        x2 = by_halves(bottom, b[last], upper, unit)
        x1 = by_halves(top, b[first] - a[..., :half, half:] @ x2, upper, unit)
    else:
        x1 = by_halves(top, b[first], upper, unit)
        x2 = by_halves(bottom, b[last] - a[..., half:, :half] @ x1, upper, unit)
    return np.concatenate([x1, x2], -2)


def lu(a):
    """Packed factors, 1-based row interchanges (int32) and the 1-based column of the first zero pivot (0: none)."""
    shape, (m, n) = a.shape, a.shape[-2:]
    k = min(m, n)
    found = openblas.lu(a.reshape(math.prod(shape[:-2]), m, n))
    packed, pivots, info = found or lu_by_blocks(np.array(a).reshape(math.prod(shape[:-2]), m, n), k)
    return packed.reshape(shape), pivots.reshape(*shape[:-2], k), info.reshape(shape[:-2])


def lu_by_blocks(a, k):
    """``lu`` of a batch [b, m, n], in place, k being the smaller of m and n."""
    each = np.arange(len(a))
    pivots, info = np.empty((len(a), k), np.int32), np.zeros(len(a), np.int32)
    for start in range(0, k, BLOCK):
        stop = min(start + BLOCK, k)
        for j in range(start, stop):
            best = j + np.abs(a[:, j:, j]).argmax(1)
            pivots[:, j] = best + 1
            rows = a[each, j].copy()
            a[each, j] = a[each, best]
            a[each, best] = rows
            pivot = a[:, j, j]
            info = np.where((pivot == 0) & (info == 0), j + 1, info)
            below = a[:, j + 1:, j] / np.where(pivot == 0, 1, pivot)[:, None]
            a[:, j + 1:, j] = below
            a[:, j + 1:, j + 1:stop] -= below[:, :, None] * a[:, None, j, j + 1:stop]
        a[:, start:stop, stop:] = by_halves(a[:, start:stop, start:stop], a[:, start:stop, stop:], False, True)
        a[:, stop:, stop:] -= a[:, stop:, start:stop] @ a[:, start:stop, stop:]
    return a, pivots, info.astype(np.int32)


def permutation(pivots, size):
    """Order of rows after a sequence of 1-based interchanges: [*, k] -> [*, size]."""
    if pivots.size and not (1 <= pivots.min() and pivots.max() <= size):
        raise RuntimeError(
            f"pivots must lie between 1 and {size}, the number of rows: did you properly pass the result of lu_factor?")
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    order = np.tile(np.arange(size), (len(flat), 1))
    each = np.arange(len(flat))
    for j in range(flat.shape[1]):
        other = flat[:, j] - 1
        order[each, j], order[each, other] = order[each, other], order[each, j].copy()
    return order.reshape(*pivots.shape[:-1], size)


def cholesky(a):
    """The lower factor, and the order of the first leading minor that is not positive (0: none)."""
    try:
        return np.linalg.cholesky(a), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        out, info = np.zeros_like(a), np.zeros(a.shape[:-2], np.int32)
        for at in np.ndindex(*a.shape[:-2]):
            size = next(k for k in range(a.shape[-1], -1, -1) if positive_definite(a[at][:k, :k]))
            out[at][:size, :size] = np.linalg.cholesky(a[at][:size, :size])
            info[at] = 0 if size == a.shape[-1] else size + 1
        return out, info


def positive_definite(a) -> bool:
    try:
        np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return False
    return True


def solve(a, b):
    """x with ``a @ x = b``, and for singular a the 1-based column of its first zero pivot."""
    try:
        return np.linalg.solve(a, b), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        info = lu(a)[2]
        whole = (info == 0)[..., None, None]
        x = np.linalg.solve(np.where(whole, a, np.eye(a.shape[-1], dtype=a.dtype)), b)
        return np.where(whole, x, np.nan), info


def geqrf(a):
    """Reflectors below the diagonal with R on and above it, and their scales."""
    if not a.size:
        return np.array(a), np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
    packed, scales = np.linalg.qr(a, mode="raw")
    return np.swapaxes(packed, -1, -2), scales


def least_squares(a, b, cutoff):
    """The minimum-norm solution of min |a x - b|, the rank and the singular values, matrix by matrix.

    Of infinities or NaN in a, for which LAPACK's iteration might not end, NaN and a rank of 0; NaN for columns of b.
    """
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    x, rank = np.zeros((*lead, n, b.shape[-1]), a.dtype), np.zeros(lead, np.int64)
    values = np.zeros((*lead, min(m, n)), a.real.dtype)
    for at in np.ndindex(*lead):
        if not np.isfinite(a[at]).all():
            x[at] = values[at] = np.nan
            continue
        finite = np.isfinite(b[at]).all(0)
        x[at], _, rank[at], values[at] = np.linalg.lstsq(a[at], np.where(finite, b[at], 0), cutoff)
        x[at][:, ~finite] = np.nan
    return x, rank, values


def pade_coefficients(degree):
    """Numerator of the diagonal Pade approximant of exp: (2d - k)! d! / ((2d)! (d - k)! k!)."""
    f = math.factorial
    return [f(2 * degree - k) * f(degree) / (f(2 * degree) * f(degree - k) * f(k)) for k in range(degree + 1)]


def pade(x, degree):
    """Even and odd part of the numerator for matrices x, of degree 7 or 13, by powers up to the sixth (Paterson &
    Stockmeyer 1973)."""
    c, one = pade_coefficients(degree), np.eye(x.shape[-1], dtype=x.dtype)
    square = x @ x
    powers = [one, square, square @ square]
    powers.append(powers[2] @ square)

    def part(first):
        low = sum(c[first + 2 * k] * power for k, power in enumerate(powers))
        return low if degree == 7 else low + powers[3] @ sum(c[first + 6 + 2 * k] * powers[k] for k in (1, 2, 3))

    return part(0), x @ part(1)


def exponential(a):
    """The matrix exponential: a Pade approximant of the matrix scaled to a small norm, squared back (Higham 2005), in
    double precision.

    Degree 7 and norm 2 leave an error of 1e-12, enough for what is rounded to single precision; degree 13 and norm 5.4
    one below 1e-16.
    """
    if not a.size:
        return np.array(a)
    size = np.abs(a).sum(-2).max()
    if not np.isfinite(size):
        return np.full_like(a, np.nan)
    degree, most = (7, 2.0) if a.real.dtype == np.float32 else (13, 5.4)
    doublings = max(0, math.ceil(math.log2(size / most))) if size > 0 else 0
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    even, odd = pade(a.astype(wide) / 2.0**doublings, degree)
    out = np.linalg.solve(even - odd, even + odd)
    for _ in range(doublings):
        out = out @ out
    return out.astype(a.dtype)
