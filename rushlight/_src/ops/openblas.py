"""OpenBLAS from NumPy's wheel: LAPACK routines that NumPy does not expose, and its number of threads."""
from __future__ import annotations

import ctypes
import functools
import glob
import os

import numpy as np

LETTERS = {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}
# number of elements from which its threads pay off: below, they only contend with each other and with Rushlight's
THREADED = 1 << 20


@functools.cache
def library():
    """Return the shared library that NumPy has loaded; None if NumPy was built with another one."""
    root = os.path.dirname(np.__file__)
    for path in glob.glob(os.path.join(root, os.pardir, "numpy.libs",
                                       "*openblas64_*")) + glob.glob(os.path.join(root, ".dylibs", "*openblas64_*")):
        found = ctypes.CDLL(path)
        if hasattr(found, "scipy_openblas_set_num_threads64_"):
            return found
    return None


@functools.cache
def routine(name: str, kind: str):
    """Return a routine for elements of this NumPy type ("f4", "f8", "c8", "c16"), called with addresses; None if there
    is none."""
    found = library() and getattr(library(), f"scipy_{LETTERS[kind]}{name}_64_", None)
    if found:
        found.restype = None
    return found


def number(value: int):
    """Return an integer argument in Fortran's convention."""
    return ctypes.byref(ctypes.c_int64(value))


def sparing(function):
    """Wrap ``function`` to run on one thread of OpenBLAS for small arrays."""
    def run(*arrays, **params):
        found = library()
        if found is None or max((a.size for a in arrays if isinstance(a, np.ndarray)), default=0) >= THREADED:
            return function(*arrays, **params)
        before = found.scipy_openblas_get_num_threads64_()
        if before == 1:
            return function(*arrays, **params)
        found.scipy_openblas_set_num_threads64_(1)
        try:
            return function(*arrays, **params)
        finally:
            found.scipy_openblas_set_num_threads64_(before)
    return run


def lu(a: np.ndarray):
    """LAPACK's getrf on a batch [b, m, n] of matrices: packed factors, 1-based interchanges, 1-based column of the
    first zero pivot; None without it."""
    call = routine("getrf", a.dtype.str[1:])
    if call is None:
        return None
    count, m, n = a.shape
    columns = np.array(np.swapaxes(a, 1, 2), order="C")
    pivots, info = np.zeros((count, min(m, n)), np.int64), np.zeros(count, np.int64)
    if a.size:
        rows, width, lead = number(m), number(n), number(m)
        for k in range(count):
            call(rows, width, ctypes.c_void_p(columns[k].ctypes.data), lead, ctypes.c_void_p(pivots[k].ctypes.data),
                 ctypes.c_void_p(info[k:].ctypes.data))
    return np.ascontiguousarray(np.swapaxes(columns, 1, 2)), pivots.astype(np.int32), info.astype(np.int32)


def substitute(a: np.ndarray, b: np.ndarray, upper: bool, unit: bool):
    """BLAS's trsm on batches a [b, n, n], b [b, n, k] of one type: x with a x = b; None without it."""
    call = routine("trsm", a.dtype.str[1:])
    if call is None:
        return None
    count, n, k = b.shape
    # row by row, so that BLAS sees their transposes: x^T a^T = b^T
    a, x = np.ascontiguousarray(a), np.array(b, order="C")
    if b.size:
        words = [ctypes.c_char_p(c) for c in (b"R", b"L" if upper else b"U", b"N", b"U" if unit else b"N")]
        one = np.ones(1, a.dtype)
        sizes = number(k), number(n), ctypes.c_void_p(one.ctypes.data)
        for at in range(count):
            call(*words, *sizes, ctypes.c_void_p(a[at].ctypes.data), number(n), ctypes.c_void_p(x[at].ctypes.data),
                 number(k))
    return x
