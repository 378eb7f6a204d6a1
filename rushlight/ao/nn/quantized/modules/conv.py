"""Convolutions of quantized tensors."""
from __future__ import annotations

from ....._src.core.later import facade, later
from ....._src.ops.conv import spread
from ....._src.ops.quantized_library import LIBRARY
from .....nn import functional as F
from ....quantization.observer import BY_CHANNEL
from .utils import WeightedQuantizedModule, empty_weight, layer_of, quantized_weight

__getattr__ = later(__name__)


class _ConvNd(WeightedQuantizedModule):
    """A convolution by a qint8 weight: quantized [n, c, *space] -> quantized [n, o, *out], channels last in memory."""

    rank, compute = 2, staticmethod(LIBRARY["conv2d"])
    transposed, modes = False, ("zeros", "reflect")

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):
        super().__init__()
        self.lay_out(in_channels, out_channels, kernel_size, stride, padding, 0, groups, bias, dilation, padding_mode)

    def lay_out(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
                padding_mode):
        """Takes all sizes, and zeros for weights."""
        if padding_mode not in self.modes:
            raise NotImplementedError(f"padding mode {padding_mode} is not supported by quantized convolution")
        self.in_channels, self.out_channels, self.groups, self.padding_mode = (in_channels, out_channels, groups,
                                                                               padding_mode)
        self.kernel_size, self.stride, self.padding, self.dilation, self.output_padding = (
            spread(v, self.rank, "size") for v in (kernel_size, stride, padding, dilation, output_padding))
        rows = (in_channels, out_channels // groups) if self.transposed else (out_channels, in_channels // groups)
        self.set_weight_bias(empty_weight(*rows, *self.kernel_size), facade().zeros(out_channels) if bias else None)
        self.scale, self.zero_point = 1.0, 0

    def set_weight_bias(self, w, b):
        """Sets the qint8 weight [o, c / groups, *kernel] and the float bias [o]."""
        padding = (0,) * self.rank if self.padding_mode != "zeros" else self.padding
        prepack = getattr(facade().ops.quantized, f"conv{self.rank}d_prepack")
        self._packed_params = prepack(w, b, self.stride, padding, self.dilation, self.groups)

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
        if any(self.output_padding):
            text += f", output_padding={self.output_padding}"
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
        made = cls.like(layer)
        made.set_weight_bias(quantized_weight(layer.weight, observer), None if layer.bias is None
                             else layer.bias.detach())
        made.set_output(scale, zero_point)
        return made

    @classmethod
    def like(cls, layer):
        """One of zeros with the sizes of a float layer."""
        return cls(layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
                   layer.dilation, layer.groups, layer.bias is not None, layer.padding_mode)


class Conv1d(_ConvNd):
    """A convolution over one dimension: quantized [n, c, l] -> quantized [n, o, l]."""

    rank, compute = 1, staticmethod(LIBRARY["conv1d"])


class Conv2d(_ConvNd):
    """A convolution over two dimensions: quantized [n, c, h, w] -> quantized [n, o, h, w]."""


class Conv3d(_ConvNd):
    """A convolution over three dimensions: quantized [n, c, d, h, w] -> quantized [n, o, d, h, w]."""

    rank, compute = 3, staticmethod(LIBRARY["conv3d"])


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution by a qint8 weight [c, o / groups, *kernel] of one scale: quantized [n, c, *space] ->
    quantized [n, o, *out], channels last in memory."""

    transposed, modes = True, ("zeros",)

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                 bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None):
        super(_ConvNd, self).__init__()
        self.lay_out(in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
                     padding_mode)

    def set_weight_bias(self, w, b):
        """Sets the qint8 weight [c, o / groups, *kernel] and the float bias [o]."""
        prepack = getattr(facade().ops.quantized, f"conv_transpose{self.rank}d_prepack")
        self._packed_params = prepack(w, b, self.stride, self.padding, self.output_padding,
                                      self.dilation, self.groups)

    @classmethod
    def of(cls, layer, observer, scale, zero_point):
        if observer.qscheme in BY_CHANNEL:
            raise AssertionError("Per channel weight observer is not supported yet for ConvTranspose{n}d.")
        return super().of(layer, observer, scale, zero_point)

    @classmethod
    def like(cls, layer):
        return cls(layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
                   layer.output_padding, layer.groups, layer.bias is not None, layer.dilation, layer.padding_mode)


class ConvTranspose1d(_ConvTransposeNd):
    """A transposed convolution over one dimension: quantized [n, c, l] -> quantized [n, o, l]."""

    rank, compute = 1, staticmethod(LIBRARY["conv_transpose1d"])


class ConvTranspose2d(_ConvTransposeNd):
    """A transposed convolution over two dimensions: quantized [n, c, h, w] -> quantized [n, o, h, w]."""

    compute = staticmethod(LIBRARY["conv_transpose2d"])


class ConvTranspose3d(_ConvTransposeNd):
    """A transposed convolution over three dimensions: quantized [n, c, d, h, w] -> quantized [n, o, d, h, w]."""

    rank, compute = 3, staticmethod(LIBRARY["conv_transpose3d"])
