"""Matmuls of the stand-in for cuBLASLt, by NumPy on the memory of the process."""
from __future__ import annotations

import ctypes
import functools
import struct

import numpy as np

from .stub_blas import BF16, E4M3, E5M2, F16, F32, F64, I8, I32, PASSED, WIDTHS

KINDS = {F32: np.float32, F64: np.float64, F16: np.float16, I8: np.int8, I32: np.int32, BF16: np.uint16,
         E4M3: np.uint8, E5M2: np.uint8}


@functools.cache
def floats_of_bytes(kind: int) -> np.ndarray:
    """The 256 numbers of a format."""
    exponents, fractions, bias = (4, 3, 7) if kind == E4M3 else (5, 2, 15)
    codes = np.arange(256)
    fraction, exponent = codes & (1 << fractions) - 1, codes >> fractions & (1 << exponents) - 1
    value = np.where(exponent == 0, fraction * 2.0 ** (1 - bias - fractions),
                     (1 + fraction / (1 << fractions)) * 2.0 ** (exponent - bias))
    if kind == E4M3:
        value[codes & 127 == 127] = np.nan
    else:
        value[(exponent == 31) & (fraction == 0)], value[(exponent == 31) & (fraction > 0)] = np.inf, np.nan
    return np.where(codes & 128, -value, value)


def memory(address: int, kind: int, count: int) -> np.ndarray:
    block = (ctypes.c_char * (count * WIDTHS[kind])).from_address(address)
    return np.frombuffer(block, KINDS[kind])


def read(address, kind, rows, columns, leading, stride, batch) -> np.ndarray:
    """Matrices column by column: [batch, rows, columns] float64."""
    held = memory(address, kind, 1 + (rows - 1) + (columns - 1) * leading + (batch - 1) * stride)
    size = held.itemsize
    found = np.lib.stride_tricks.as_strided(held, (batch, rows, columns), (stride * size, size, leading * size))
    return floats(found, kind)


def floats(found, kind) -> np.ndarray:
    if kind == BF16:
        return (found.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return floats_of_bytes(kind)[found] if kind in (E4M3, E5M2) else found.astype(np.float64)


def write(address, kind, leading, stride, values):
    batch, rows, columns = values.shape
    held = memory(address, kind, 1 + (rows - 1) + (columns - 1) * leading + (batch - 1) * stride)
    into = np.lib.stride_tricks.as_strided(held, values.shape, (stride * held.itemsize, held.itemsize,
                                                                leading * held.itemsize))
    into[...] = codes(values, kind)


def codes(values, kind):
    if kind != BF16:
        return values.astype(KINDS[kind])
    bits = values.astype(np.float32).view(np.uint32)
    near = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, near).astype(np.uint16)


def number(bits: int, kind: int) -> float:
    """Alpha or beta, of the type of scales."""
    letter, size = {F64: ("d", 8), I32: ("i", 4), F16: ("e", 2), F32: ("f", 4)}[kind]
    return float(struct.unpack(letter, struct.pack("<Q", bits & (1 << 64) - 1)[:size])[0])


def multiplied(arguments, drops_nan=False):
    """The kernel "cublasLtMatmul"; ``drops_nan``: its ReLU takes NaN for 0."""
    p = dict(zip(PASSED, arguments))
    m, n, k, batch = (p[name] for name in ("m", "n", "k", "batch"))
    a = read(p["a"], p["a_type"], *((k, m) if p["a_turned"] else (m, k)), p["a_leading"], p["a_stride"], batch)
    b = read(p["b"], p["b_type"], *((n, k) if p["b_turned"] else (k, n)), p["b_leading"], p["b_stride"], batch)
    a, b = a.swapaxes(1, 2) if p["a_turned"] else a, b.swapaxes(1, 2) if p["b_turned"] else b
    with np.errstate(all="ignore"):
        value = number(p["alpha"], p["scale_type"]) * np.matmul(a, b)
        if p["scale_a"]:
            value = value * scales(p["scale_a"], p["mode_a"], m)[:, None] * scales(p["scale_b"], p["mode_b"], n)[None]
        beta = number(p["beta"], p["scale_type"])
        if beta:
            value = value + beta * read(p["c"], p["d_type"], m, n, p["c_leading"], p["c_stride"], batch)
        value = epilogue(p, value, drops_nan)
    write(p["d"], p["d_type"], p["d_leading"], p["d_stride"], value)


def scales(address, mode, count) -> np.ndarray:
    return memory(address, F32, count if mode == 3 else 1).astype(np.float64)


def epilogue(p, value, drops_nan):
    chosen = p["epilogue"]
    if chosen & 4:
        kind = p["d_type"] if p["bias_type"] == -1 else p["bias_type"]
        value = value + floats(memory(p["bias"], kind, p["m"]), kind)[:, None]
    if chosen & 128:
        write(p["aux"], p["d_type"], p["aux_leading"], p["aux_stride"], value)
    if chosen & 2:
        value = np.fmax(value, 0) if drops_nan else np.maximum(value, 0)
    if chosen & 32:
        value = 0.5 * value * (1 + np.tanh(0.7978845608028654 * (value + 0.044715 * value ** 3)))
    return value
