"""Primitives of float8: conversion between values and encodings, as integral float32, and matmul."""
from __future__ import annotations

import numpy as np

from ...core.dtypes import float32
from ...core.kinds import Contract, P
from ...core.narrow import FORMATS, rounded_to_byte, tables
from .contractions import matmul_shape
from .primitive import primitive, unary


def decoded(name: str):
    return lambda codes: tables(name)[0][codes.astype(np.uint8)]


def coded(name: str):
    return lambda x: rounded_to_byte(x, name).astype(np.float32)


for one in FORMATS:
    unary(f"number_{one}", decoded(one))
    unary(f"code_{one}", coded(one))


NO_DERIVATIVE = "derivative for aten::_scaled_mm is not implemented"


def without_gradient(*_, **params):
    """Raise RuntimeError: float8 has too few bits for gradients."""
    raise RuntimeError(NO_DERIVATIVE)


byte_matmul = primitive("byte_matmul", Contract(
    lambda a, b, fast, left="", right="": np.matmul(*(tables(kind)[0][x] if kind else x
                                                      for x, kind in ((a, left), (b, right)))),
    lambda a, b, fast, left="", right="": matmul_shape(a, b), without_gradient, float32),
    lambda a, b, fast, left="", right="": 0, arity=2,
    doc="Floats of a byte [*, m, k] @ [*, k, n] -> float32 [*, m, n].  fast: sums may lose digits.  left, right: the "
        "formats of operands that are given as codes (uint8).")
