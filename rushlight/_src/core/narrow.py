"""float8, float16 and bfloat16, and pairs of them: conversion to float32 or complex64, and rounding from these."""
from __future__ import annotations

import functools

import numpy as np

from .dtypes import bfloat16, complex32, float16


class Format:
    """A float8 format: a sign, an exponent, ``mantissa`` bits; ``bias`` is subtracted from the exponent (Micikevicius
    et al. 2022, "FP8 formats for deep learning").

    ``infinite``: the largest exponent encodes infinities and NaN; ``finite``: only the largest encoding is NaN, and
    overflow saturates; ``unsigned``: minus zero is NaN, and so is overflow.
    """

    def __init__(self, mantissa: int, bias: int, kind: str):
        self.mantissa, self.bias, self.kind = mantissa, bias, kind

    def decoded(self) -> np.ndarray:
        """The number of each of the 256 codes."""
        codes = np.arange(256)
        exponent, fraction = codes >> self.mantissa & (127 >> self.mantissa), codes & (1 << self.mantissa) - 1
        normal = exponent > 0
        values = np.ldexp(fraction + normal * (1 << self.mantissa),
                          np.where(normal, exponent, 1) - self.bias - self.mantissa)
        values = np.where(codes & 128, -values, values).astype(np.float32)
        if self.kind == "unsigned":
            values[128] = np.nan
        elif self.kind == "finite":
            values[[127, 255]] = np.nan
        else:
            top = exponent == 127 >> self.mantissa
            values[top] = np.where(fraction[top], np.nan, np.copysign(np.inf, values[top]))
        return values


FORMATS = {"float8_e4m3fn": Format(3, 7, "finite"), "float8_e4m3fnuz": Format(3, 8, "unsigned"),
           "float8_e5m2": Format(2, 15, "infinite"), "float8_e5m2fnuz": Format(2, 16, "unsigned")}


@functools.lru_cache(maxsize=None)
def tables(name: str):
    """The values of all encodings; the midpoints between adjacent ones from 0 up; and the encoding of overflow."""
    values = FORMATS[name].decoded()
    positive = values[:128]
    ladder = positive[np.isfinite(positive)].astype(np.float64)
    ladder = np.append(ladder, 2 * ladder[-1] - ladder[-2])
    return values, (ladder[1:] + ladder[:-1]) / 2, len(ladder) - 1


def widen(array: np.ndarray, dtype) -> np.ndarray:
    """Stored elements as the type NumPy computes in."""
    if dtype is bfloat16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    if dtype is float16:
        return array.astype(np.float32)
    if dtype is complex32:
        parts = np.array(array, order="C")[..., None].view(np.float16).astype(np.float32)
        return parts.view(np.complex64)[..., 0]
    return tables(dtype.name)[0][array] if dtype.name in FORMATS else array


def narrow(array, dtype) -> np.ndarray:
    """Computed elements as they are stored, rounded to nearest even."""
    array = np.asarray(array)
    if dtype is bfloat16:
        with np.errstate(over="ignore"):
            bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
        rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(array), np.uint16(0x7FC0), rounded)
    if dtype.name in FORMATS:
        return rounded_to_byte(array, dtype.name)
    if dtype is complex32:
        parts = np.array(array, np.complex64, order="C")[..., None].view(np.float32)
        with np.errstate(all="ignore"):
            return parts.astype(np.float16).view(np.uint32)[..., 0]
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy, copy=False)


def as_held(value, dtype):
    """A Python number as a tensor of this dtype holds it.

    >>> as_held(0.1, float16), as_held(1e9, float16)
    (0.0999755859375, inf)
    """
    return widen(narrow(np.asarray(value), dtype), dtype).item()


def rounded_to_byte(array, name: str) -> np.ndarray:
    """The codes of the nearest numbers, the even one of two that are as near; too large ones and NaN as the format has
    them."""
    _, middles, beyond = tables(name)
    size = np.abs(array)
    code = np.searchsorted(middles, size)
    tie = (code < len(middles)) & (code & 1 == 1) & (size == middles[np.minimum(code, len(middles) - 1)])
    kind = FORMATS[name].kind
    code = np.where(np.isnan(array), 128 if kind == "unsigned" else 127,
                    np.minimum(code + tie, beyond - (kind == "finite")))
    negative = np.signbit(array) & ((code > 0) | (kind != "unsigned"))
    return (code | negative * 128).astype(np.uint8)
