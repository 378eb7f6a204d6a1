"""Convolutions with their batch norm and relu that learn with rounded weights."""
from __future__ import annotations

from ...... import nn
from ......_src.core.later import later
from ......nn import functional as F
from ....qat.modules import conv
from ....qat.modules.rounded import Rounded
from ...modules import fused
from .normed import Normed

__getattr__ = later(__name__)
__all__ = ["ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d",
           "ConvReLU2d", "ConvReLU3d", "freeze_bn_stats", "update_bn_stats"]


class _ConvBnNd(Normed, conv._ConvNd):
    """A convolution and its batch norm, by rounded weights: [n, c, *space] -> [n, o, *out]."""

    norm: type

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=None,
                 padding_mode="zeros", eps=1e-05, momentum=0.1, freeze_bn=False, qconfig=None):
        super(Rounded, self).__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                                      bool(bias), padding_mode)
        self.add_norm(self.norm(out_channels, eps, momentum), qconfig, freeze_bn)

    def forward(self, input):
        return self.normed(input, lambda x, w: self._conv_forward(x, w, None), self.bias)

    @classmethod
    def like(cls, layer, norm, qconfig):
        made = cls(layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
                   layer.dilation, layer.groups, layer.bias is not None, layer.padding_mode, norm.eps, norm.momentum,
                   False, qconfig)
        made.weight, made.bias, made.bn = layer.weight, layer.bias, norm
        return made

    def to_float(self):
        """The float convolution, with the batch norm in its weight."""
        made = self.float_convolution(True)
        made.weight, made.bias = self.folded()
        return made.train(self.training)


class _ReLU:
    """Relu after a convolution."""

    def forward(self, input):
        return F.relu(super().forward(input))

    def to_float(self):
        """The float convolution and relu in a row."""
        layer = super().to_float()
        return {nn.Conv1d: fused.ConvReLU1d, nn.Conv2d: fused.ConvReLU2d, nn.Conv3d: fused.ConvReLU3d}[type(layer)](
            layer, nn.ReLU())


def _of_rank(rank: int, space: str):
    """The classes for a number of dimensions: with a batch norm, with a batch norm and relu, with relu."""

    def made(name, words, *bases, **fields):
        fields["__doc__"] = f"nn.Conv{rank}d{words}, by rounded weights: [n, c, {space}] -> [n, o, {space}]."
        return type(name, bases, {**fields, "__module__": __name__, "_FLOAT_MODULE": getattr(fused, name)})

    normed = made(f"ConvBn{rank}d", " and its batch norm", _ConvBnNd, getattr(nn, f"Conv{rank}d"),
                  norm=getattr(nn, f"BatchNorm{rank}d"))
    return (normed, made(f"ConvBnReLU{rank}d", ", its batch norm and relu", _ReLU, normed),
            made(f"ConvReLU{rank}d", " and relu", _ReLU, getattr(conv, f"Conv{rank}d")))


ConvBn1d, ConvBnReLU1d, ConvReLU1d = _of_rank(1, "l")
ConvBn2d, ConvBnReLU2d, ConvReLU2d = _of_rank(2, "h, w")
ConvBn3d, ConvBnReLU3d, ConvReLU3d = _of_rank(3, "d, h, w")


def update_bn_stats(mod):
    """For ``model.apply``: lets batch norms of convolutions follow what they see.  Linear layers have a method for
    it."""
    if isinstance(mod, _ConvBnNd):
        mod.update_bn_stats()


def freeze_bn_stats(mod):
    """For ``model.apply``: keeps the statistics of batch norms of convolutions.  Linear layers have a method for it."""
    if isinstance(mod, _ConvBnNd):
        mod.freeze_bn_stats()
