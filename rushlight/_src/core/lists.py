"""Nested lists of numbers, with arrays and tensors of one element among them, as arrays."""
from __future__ import annotations

import functools
import itertools
import operator

import numpy as np

from . import dtypes
from .native import Tensor


def number(tensor, kind):
    """The only element as a Python number, of one kind or (None) its own. Raises ValueError if there are several,
    RuntimeError if it has an imaginary part."""
    if tensor._rush_meta.numel != 1:
        raise ValueError(
            "only one element tensors can be converted to Python scalars, not one of shape "
            f"{list(tensor._rush_meta.shape)}")
    value = tensor.item()
    if isinstance(value, complex) and kind is not None:
        if value.imag:
            raise RuntimeError(
                f"value cannot be converted to type {kind.__name__} without overflow: {value} has an imaginary part")
        value = value.real
    return value if kind is None else kind(value)


def flat_values(data):
    if not isinstance(data, (list, tuple)):
        return iter((data,))
    return itertools.chain.from_iterable(map(flat_values, data))


def own_dtype(value):
    """The dtype of one entry of a nested list; that of a number of Python's is the default one of its category."""
    if isinstance(value, Tensor):
        return value.dtype
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype in dtypes.FROM_NUMPY:
        return dtypes.FROM_NUMPY[value.dtype]
    if isinstance(value, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(value).__name__}'")
    if isinstance(value, (np.ndarray, np.generic)):
        raise ValueError(f"too many dimensions '{getattr(value, 'dtype', type(value).__name__)}'")
    if value is None:
        raise RuntimeError("Could not infer dtype of NoneType")
    if not isinstance(value, (bool, int, float, complex)) and not hasattr(value, "__float__"):
        raise RuntimeError(f"Could not infer dtype of {type(value).__name__}")
    return dtypes.default_of(dtypes.category_of(value))


def array_of(data, dtype):
    """Nested lists of numbers (arrays and tensors of one element among them) as an array, and the dtype they infer."""
    kinds = set(map(type, flat_values(data)))
    if kinds <= {bool, int, float, complex}:
        found = [dtypes.default_of(dtypes.category_of(kind())) for kind in kinds]
    else:
        found = list(map(own_dtype, flat_values(data)))
    inferred = functools.reduce(dtypes.promote, found) if found else dtypes.Defaults.floating
    kind, inferred = inferred.category, dtype or inferred
    if kind == dtypes.COMPLEX > inferred.category or not kinds <= {bool, int, float, complex}:
        data = plain(data, inferred)
    wide = (np.bool_, np.int64, np.float64, np.complex128)[dtypes.BOOL if inferred is dtypes.bool_ else kind]
    wide = np.uint64 if dtype is dtypes.uint64 and kind == dtypes.INTEGER else wide
    try:
        array = np.array(data, dtype=wide)
    except OverflowError as error:
        if inferred.is_inexact or inferred is dtypes.bool_:  # these take integers of any length
            return np.array(data, dtype=object).astype(np.bool_ if inferred is dtypes.bool_ else np.float64), inferred
        raise ValueError(f"Overflow when unpacking long long: {data} holds a number beyond 64 bits") from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"expected sequence of equal lengths at every dimension: {error}") from None
    return array, inferred


def plain(data, dtype):
    """Nested lists with Python numbers instead of arrays and of tensors with one element. Raises TypeError, ValueError
    or RuntimeError for values that a dtype does not take: fractions are truncated for Python numbers only, imaginary
    parts for none."""
    if isinstance(data, np.ndarray):
        return data.tolist()
    if isinstance(data, (list, tuple)):
        return [plain(v, dtype) for v in data]
    if isinstance(data, Tensor):
        return number(data, None if dtype.is_complex else float) if dtype.is_inexact else operator.index(data)
    if isinstance(data, np.generic) and not isinstance(data, float) and not dtype.is_inexact:
        return bool(data) if isinstance(data, (np.bool_, complex)) and dtype is dtypes.bool_ else operator.index(data)
    if type(data) is complex and not dtype.is_complex and dtype is not dtypes.bool_:
        raise TypeError(f"must be real number, not complex, for {dtype}")
    return data


def first_of(data):
    """The first item of nested lists."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return data
