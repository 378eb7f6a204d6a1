"""Convolutions that learn with rounded weights."""
from __future__ import annotations

from ....._src.core.later import later
from ..... import nn
from .rounded import Rounded

__getattr__ = later(__name__)


class _ConvNd(Rounded):
    """A convolution by rounded weights: [n, c, *space] -> [n, o, *out]."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", qconfig=None, device=None, dtype=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
                         device=device, dtype=dtype)
        self.round_weight(qconfig)

    def forward(self, input):
        return self._conv_forward(input, self.rounded(), self.bias)

    @classmethod
    def like(cls, layer, qconfig):
        made = cls(layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
                   layer.dilation, layer.groups, layer.bias is not None, layer.padding_mode, qconfig=qconfig)
        made.weight, made.bias = layer.weight, layer.bias
        return made

    def float_convolution(self, bias):
        """The float convolution of this shape, with or without a bias, which has no values yet."""
        kind = next(kind for kind in type(self).__mro__ if kind in (nn.Conv1d, nn.Conv2d, nn.Conv3d))
        return kind(self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, self.dilation,
                    self.groups, bias, self.padding_mode)

    def to_float(self):
        """The float layer, with the weight as it is before rounding."""
        made = self.float_convolution(self.bias is not None)
        made.weight, made.bias = self.weight, self.bias
        return made.train(self.training)


class Conv1d(_ConvNd, nn.Conv1d):
    """A convolution over one dimension by rounded weights: [n, c, l] -> [n, o, l]."""

    _FLOAT_MODULE = nn.Conv1d


class Conv2d(_ConvNd, nn.Conv2d):
    """A convolution over two dimensions by rounded weights: [n, c, h, w] -> [n, o, h, w]."""

    _FLOAT_MODULE = nn.Conv2d


class Conv3d(_ConvNd, nn.Conv3d):
    """A convolution over three dimensions by rounded weights: [n, c, d, h, w] -> [n, o, d, h, w]."""

    _FLOAT_MODULE = nn.Conv3d
