"""Pickles from untrusted sources: plain Python values and NumPy arrays of numbers or strings.  No other class or
function is used.

NumPy's own ``__setstate__`` trusts its input (the flags of a dtype among it), so functions of this module check it and
make arrays and dtypes.
"""
from __future__ import annotations

import io
import math
import pickle

import numpy as np

from .weights import modern

KINDS = "biufcSU"  # of dtypes whose values are data: no objects, no fields
ORDERS = "<>=|"


class PlainUnpickler(pickle.Unpickler):
    """Unpickler of such pickles.  UnpicklingError for one that names anything else."""

    def find_class(self, module, name):
        module, name = modern(module, name)
        if (module, name) not in NAMES:
            raise pickle.UnpicklingError("this pickle has to be plain data (Python's values and NumPy arrays), but it "
                                         f"names {module}.{name}")
        return NAMES[module, name]


def load_plain(data: bytes, encoding="ASCII"):
    """Return the value of a pickle.  ``encoding``: of strings that Python 2 wrote.  UnpicklingError for a pickle that
    is damaged or holds more than plain values and arrays."""
    try:
        return PlainUnpickler(io.BytesIO(data), encoding=encoding).load()
    except (pickle.UnpicklingError, MemoryError):
        raise
    except Exception as error:  # nothing but the pickle's own bytes can have caused it
        raise pickle.UnpicklingError(f"the pickle is damaged: {type(error).__name__}: {error}") from error


class PlainDtype:
    """A dtype in a pickle, whose byte order follows its name."""

    def __init__(self, name, *flags):
        self.dtype = np.dtype(str(name))
        if self.dtype.kind not in KINDS:
            raise pickle.UnpicklingError(f"arrays in this pickle may contain numbers and strings, not {self.dtype}")

    def __setstate__(self, state):
        if state[1] not in ORDERS:
            raise pickle.UnpicklingError(f"{state[1]!r:.20} is not a byte order")
        self.dtype = self.dtype.newbyteorder(state[1])


class PlainArray(np.ndarray):
    """An array in a pickle, whose shape, dtype and bytes follow it."""

    def __reduce__(self):
        return np.asarray(self).__reduce__()

    def __setstate__(self, state):
        _, shape, kind, is_fortran, data = state
        if isinstance(data, str):  # bytes of Python 2
            data = data.encode("latin1")
        if not (isinstance(kind, PlainDtype) and isinstance(data, bytes) and isinstance(shape, tuple)
                and all(type(n) is int and n >= 0 for n in shape)
                and math.prod(shape) * kind.dtype.itemsize == len(data)):
            raise pickle.UnpicklingError(f"an array of shape {shape!r:.50} does not have its bytes in the pickle")
        super().__setstate__((1, shape, kind.dtype, bool(is_fortran), data))


class ArrayName:
    """Represents ``numpy.ndarray`` if a pickle names it as an argument; it is never called."""


def begin_array(*given) -> PlainArray:
    """Return an array without elements; ``__setstate__`` fills it."""
    return PlainArray(0, np.uint8)


def encode_text(text: str, encoding: str) -> bytes:
    """Return bytes that protocol 2 writes as a string."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes in a pickle are latin1 text, not {encoding!r:.20}")
    return text.encode("latin1")


def make_bytes() -> bytes:
    """Return empty bytes, which protocol 2 cannot write otherwise."""
    return b""


def make_bytearray(data=b"", *encoding) -> bytearray:
    """Return a bytearray of bytes, or of a string; a number would be a length, for which a few bytes could request much
    memory."""
    if not isinstance(data, (bytes, str)):
        raise pickle.UnpicklingError(f"a bytearray in a pickle is of its bytes, not of {type(data).__name__}")
    return bytearray(data, *encoding)


NAMES = {("_codecs", "encode"): encode_text, ("builtins", "set"): set, ("builtins", "frozenset"): frozenset,
         ("builtins", "complex"): complex, ("builtins", "bytes"): make_bytes,
         ("builtins", "bytearray"): make_bytearray, ("numpy", "dtype"): PlainDtype,
         ("numpy", "ndarray"): ArrayName, ("numpy.core.multiarray", "_reconstruct"): begin_array,
         ("numpy._core.multiarray", "_reconstruct"): begin_array}
