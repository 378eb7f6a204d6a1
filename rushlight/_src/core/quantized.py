"""Dtypes of quantized tensors: stored integers and their quantization parameters.

A quantized tensor is an ordinary tensor whose dtype has a scheme: x = (q - zero point) * scale. Equal schemes are one
dtype, so plans, views and guards distinguish quantized tensors like all others; kernels read the integers. Users see as
``dtype`` one of torch.quint8, torch.qint8 and torch.qint32.
"""
from __future__ import annotations

import threading
import weakref
from typing import NamedTuple

import numpy as np

from . import dtypes
from .dtypes import INTEGER, dtype
from .forking import guarded

QUANTIZED = {one.name: one for one in dtypes.NAMED if one.name in ("qint8", "quint8", "qint32")}
qint8, quint8, qint32 = (QUANTIZED[name] for name in ("qint8", "quint8", "qint32"))
WHOLE = {qint8: dtypes.int8, quint8: dtypes.uint8, qint32: dtypes.int32}  # the stored dtypes
BOUNDS = {qint8: (-128, 127), quint8: (0, 255), qint32: (-(1 << 31), (1 << 31) - 1)}


class qscheme:
    """A quantization scheme: torch.per_tensor_affine and similar."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return self.name  # in this module


SCHEME_NAMES = ("per_tensor_affine", "per_channel_affine", "per_tensor_symmetric", "per_channel_symmetric",
                "per_channel_affine_float_qparams")
QSCHEMES = tuple(map(qscheme, SCHEME_NAMES))
(per_tensor_affine, per_channel_affine, per_tensor_symmetric, per_channel_symmetric,
 per_channel_affine_float_qparams) = QSCHEMES


class PerTensor(NamedTuple):
    """One scale and one zero point."""

    scale: float
    zero_point: int

    kind = per_tensor_affine

    def values(self, whole: np.ndarray) -> np.ndarray:
        """Dequantize integers to float32."""
        return (whole.astype(np.int64) - self.zero_point).astype(np.float32) * np.float32(self.scale)


class PerChannel(NamedTuple):
    """A scale and a zero point for each index of dimension ``axis``; zero points may be fractions (``floating``)."""

    scales: tuple
    zero_points: tuple
    axis: int
    floating: bool = False

    kind = property(lambda self: per_channel_affine_float_qparams if self.floating else per_channel_affine)

    def values(self, whole: np.ndarray) -> np.ndarray:
        """Dequantize integers to float32."""
        shape = [-1 if k == self.axis else 1 for k in range(whole.ndim)]
        scales, zero_points = (np.array(one, np.float32).reshape(shape) for one in (self.scales, self.zero_points))
        return (whole.astype(np.float32) - zero_points) * scales


SCHEMES = {2: PerTensor, 4: PerChannel}  # by the number of their parts
made = weakref.WeakValueDictionary()
lock = guarded("metas", threading.RLock())


def quantized(base: dtype, scheme) -> dtype:
    """The dtype of tensors of ``base`` (qint8, quint8 or qint32) with a quantization scheme.

    >>> quantized(quint8, PerTensor(0.5, 3)) is quantized(quint8, PerTensor(0.5, 3))
    True
    """
    if type(scheme) is PerTensor:
        # of plain numbers, should they be run-time ones
        scheme = PerTensor(float(scheme.scale), int(scheme.zero_point))
    key = base, type(scheme), scheme
    with lock:
        found = made.get(key)
        if found is None:
            whole = WHOLE[base]
            found = dtype(whole.name, INTEGER, whole.name, whole.rank, whole.is_signed)
            found.scheme, found.shown = scheme, base
            made[key] = found
        return found
