"""Factors of symmetric and Hermitian matrices that need not be definite: A = L D L^H by Bunch & Kaufman (1977).

Rows and pivots are those of LAPACK's sytrf and hetrf for the lower triangle: a pivot k > 0 stands for a 1 by 1 block of
D after an exchange with row k, two equal negative ones for a 2 by 2 block whose second row was exchanged.
"""
from __future__ import annotations

import math

import numpy as np

GROWTH = (1 + math.sqrt(17)) / 8  # how much smaller than its column a pivot may be


def factors(a, hermitian):
    """Packed lower factors, pivots, and the index of the first zero in D (0: none), matrix by matrix."""
    hermitian = hermitian and a.dtype.kind == "c"
    out, pivots, info = np.tril(a), np.zeros(a.shape[:-1], np.int32), np.zeros(a.shape[:-2], np.int32)
    for at in np.ndindex(*a.shape[:-2]):
        info[at] = factorise(out[at], pivots[at], np.conj if hermitian else np.asarray, hermitian)
    return out, pivots, info


def size(x):
    """Magnitude of elements for pivoting: of complex ones the sum of both parts, as in LAPACK."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def chosen(a, k):
    """(row, size of the block) of the next pivot."""
    below = size(a[k + 1:, k])
    if not below.size or not below.max() or size(a[k, k]) >= GROWTH * below.max():
        return k, 1
    most, row = below.max(), k + 1 + int(below.argmax())
    across = max(size(a[row, k:row]).max(), size(a[row + 1:, row]).max(initial=0))
    if size(a[k, k]) >= GROWTH * most * (most / across):
        return k, 1
    return row, 1 if size(a[row, row]) >= GROWTH * across else 2


def factorise(a, pivots, turned, hermitian) -> int:
    """Factor one lower triangle in place; returns the index of the first zero of D."""
    k, info, n = 0, 0, len(a)
    while k < n:
        if hermitian:
            a[k, k] = a[k, k].real
        row, block = chosen(a, k)
        last = k + block - 1
        if row != last:
            exchange(a, last, row, turned)
            if block == 2:
                a[[k + 1, row], k] = a[[row, k + 1], k]
        rest = np.s_[k + block:]
        if block == 1:
            pivots[k] = row + 1
            if a[k, k] == 0 and not a[rest, k].any():
                info = info or k + 1
            else:
                column = a[rest, k].copy()
                a[rest, k] = column / a[k, k]
                a[rest, rest] -= np.tril(np.outer(a[rest, k], turned(column)))
        else:
            pivots[k:k + 2] = -(row + 1)
            columns = a[rest, k:k + 2].copy()
            if columns.size:
                a[rest, k:k + 2] = np.linalg.solve(whole(a, k, turned).T, columns.T).T
                a[rest, rest] -= np.tril(a[rest, k:k + 2] @ turned(columns).T)
        k += block
    return info


def whole(a, k, turned):
    """Full 2 by 2 block of D, from its stored lower triangle."""
    return np.array([[a[k, k], turned(a[k + 1, k])], [a[k + 1, k], a[k + 1, k + 1]]])


def exchange(a, i, j, turned):
    """Interchange rows and columns i < j of the remaining lower triangle."""
    a[j + 1:, [i, j]] = a[j + 1:, [j, i]]
    between = turned(a[j, i + 1:j].copy())
    a[j, i + 1:j] = turned(a[i + 1:j, i])
    a[i + 1:j, i] = between
    a[j, i] = turned(a[j, i])
    a[[i, j], [i, j]] = a[[j, i], [j, i]]


def solution(a, pivots, b, hermitian):
    """x with A x = b for packed factors of A, matrix by matrix."""
    turned = np.conj if hermitian and a.dtype.kind == "c" else np.asarray
    out = np.array(b)
    for at in np.ndindex(*b.shape[:-2]):
        solve_one(a[at], pivots[at], out[at], turned)
    return out


def solve_one(a, pivots, x, turned):
    """Solve in place, x = A^-1 x: interchanges and columns of L forwards, D, then back."""
    blocks, k = [], 0
    while k < len(a):
        blocks.append((k, 1 if pivots[k] > 0 else 2))
        k += blocks[-1][1]
    for k, block in blocks:
        last, row, end = k + block - 1, abs(int(pivots[k])) - 1, k + block
        x[[last, row]] = x[[row, last]]
        x[end:] -= a[end:, k:end] @ x[k:end]
        x[k:end] = x[k:end] / a[k, k] if block == 1 else np.linalg.solve(whole(a, k, turned), x[k:end])
    for k, block in reversed(blocks):
        last, row, end = k + block - 1, abs(int(pivots[k])) - 1, k + block
        x[k:end] -= turned(a[end:, k:end]).T @ x[end:]
        x[[last, row]] = x[[row, last]]
