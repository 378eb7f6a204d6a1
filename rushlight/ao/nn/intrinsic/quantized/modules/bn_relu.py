"""Batch norms of quantized tensors, then relu."""
from __future__ import annotations

from ......_src.core.later import later
from ....quantized.modules import batchnorm

__getattr__ = later(__name__)


class BNReLU2d(batchnorm.BatchNorm2d):
    """A batch norm by known statistics, then relu: quantized [n, c, h, w] -> quantized [n, c, h, w]."""

    relu = "_relu"


class BNReLU3d(batchnorm.BatchNorm3d):
    """A batch norm by known statistics, then relu: quantized [n, c, d, h, w] -> quantized [n, c, d, h, w]."""

    relu = "_relu"
