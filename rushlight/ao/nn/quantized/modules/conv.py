"""Convolutions of quantized tensors."""
from __future__ import annotations

from ....._src.core.later import facade, later
from ....._src.ops.conv import spread
from ....._src.ops.quantized_library import LIBRARY
from .....nn import functional as F
from .utils import WeightedQuantizedModule, empty_weight, layer_of, quantized_weight

__getattr__ = later(__name__)


class _ConvNd(WeightedQuantizedModule):
    """A convolution by a qint8 weight: quantized [n, c, *space] -> quantized [n, o, *out], channels last in memory."""

    rank, compute = 2, staticmethod(LIBRARY["conv2d"])

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):
        super().__init__()
        if padding_mode not in ("zeros", "reflect"):
            raise NotImplementedError(f"padding mode {padding_mode} is not supported by quantized convolution")
        self.in_channels, self.out_channels, self.groups, self.padding_mode = (in_channels, out_channels, groups,
                                                                               padding_mode)
        self.kernel_size, self.stride, self.padding, self.dilation = (spread(v, self.rank, "size")
                                                                      for v in (kernel_size, stride, padding, dilation))
        self.output_padding = (0,) * self.rank
        self.set_weight_bias(empty_weight(out_channels, in_channels // groups, *self.kernel_size),
                             facade().zeros(out_channels) if bias else None)
        self.scale, self.zero_point = 1.0, 0

    def set_weight_bias(self, qweight, bias_float):
        """Sets the qint8 weight [o, c / groups, *kernel] and the float bias [o]."""
        padding = (0,) * self.rank if self.padding_mode != "zeros" else self.padding
        prepack = getattr(facade().ops.quantized, f"conv{self.rank}d_prepack")
        self._packed_params = prepack(qweight, bias_float, self.stride, padding, self.dilation, self.groups)

    def weight(self):
        return self._packed_params.weight()

    def bias(self):
        return self._packed_params.bias()

    def _weight_bias(self):
        return self._packed_params.unpack()

    def forward(self, input):
        if self.padding_mode != "zeros":
            input = F.pad(input, [p for size in reversed(self.padding) for p in (size, size)], mode=self.padding_mode)
        return self.compute(input, self._packed_params, self.scale, self.zero_point)

    def extra_repr(self):
        text = (f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
                f"scale={self.scale}, zero_point={self.zero_point}")
        if any(self.padding):
            text += f", padding={self.padding}"
        if any(d != 1 for d in self.dilation):
            text += f", dilation={self.dilation}"
        text += f", groups={self.groups}" if self.groups != 1 else ""
        return text + (", bias=False" if self.bias() is None else "")

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        super()._load_from_state_dict(state_dict, prefix, *args)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float layer that has a ``qconfig`` and the observer of its results, ``activation_post_process``."""
        return cls.of(*layer_of(mod), *mod.activation_post_process.calculate_qparams())

    @classmethod
    def of(cls, layer, observer, scale, zero_point):
        """From a float layer, the observer of its weight, and the scale and zero point of its results."""
        made = cls(layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
                   layer.dilation, layer.groups, layer.bias is not None, layer.padding_mode)
        made.set_weight_bias(quantized_weight(layer.weight, observer), None if layer.bias is None
                             else layer.bias.detach())
        made.set_output(scale, zero_point)
        return made


class Conv1d(_ConvNd):
    """A convolution over one dimension: quantized [n, c, l] -> quantized [n, o, l]."""

    rank, compute = 1, staticmethod(LIBRARY["conv1d"])


class Conv2d(_ConvNd):
    """A convolution over two dimensions: quantized [n, c, h, w] -> quantized [n, o, h, w]."""


class Conv3d(_ConvNd):
    """A convolution over three dimensions: quantized [n, c, d, h, w] -> quantized [n, o, d, h, w]."""

    rank, compute = 3, staticmethod(LIBRARY["conv3d"])
