"""Convolutions of quantized tensors, then relu."""
from __future__ import annotations

from ......_src.core.later import later
from ......_src.ops.quantized_library import LIBRARY
from ....quantized.modules import conv

__getattr__ = later(__name__)


class ConvReLU1d(conv.Conv1d):
    """A convolution over one dimension, then relu: quantized [n, c, l] -> quantized [n, o, l]."""

    compute = staticmethod(LIBRARY["conv1d_relu"])


class ConvReLU2d(conv.Conv2d):
    """A convolution over two dimensions, then relu: quantized [n, c, h, w] -> quantized [n, o, h, w]."""

    compute = staticmethod(LIBRARY["conv2d_relu"])


class ConvReLU3d(conv.Conv3d):
    """A convolution over three dimensions, then relu: quantized [n, c, d, h, w] -> quantized [n, o, d, h, w]."""

    compute = staticmethod(LIBRARY["conv3d_relu"])
