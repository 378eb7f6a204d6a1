"""Convolutions."""
from __future__ import annotations

import math

from .. import functional as F
from .. import init
from ..parameter import UninitializedParameter
from .linear import empty
from .lazy import LazyModuleMixin
from .module import Module


def ntuple(value, count):
    """One number for every dimension, or one each."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


class _ConvNd(Module):
    """Base class of convolutions."""

    __constants__ = ["stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels",
                     "out_channels", "kernel_size"]

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding,
                 groups, bias, padding_mode, device=None, dtype=None):
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(
                "padding_mode must be one of ('zeros', 'reflect', 'replicate', 'circular'), but got "
                f"padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding = (in_channels, out_channels,
                                                                                            kernel_size, stride,
                                                                                            padding)
        self.dilation, self.transposed, self.output_padding, self.groups, self.padding_mode = (dilation, transposed,
                                                                                               output_padding, groups,
                                                                                               padding_mode)
        if isinstance(padding, str):
            total = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, kernel_size)]
            self._reversed_padding_repeated_twice = [v for t in reversed(total) for v in (t // 2, t - t // 2)]
        else:
            self._reversed_padding_repeated_twice = [p for p in reversed(padding) for _ in range(2)]
        shape = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = empty((*shape, *kernel_size), device=device, dtype=dtype)
        if bias:
            self.bias = empty(out_channels, device=device, dtype=dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self):
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0,) * len(self.kernel_size):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * len(self.kernel_size):
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * len(self.kernel_size):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


def convolution_class(rank):
    function = f"conv{rank}d"

    class Conv(_ConvNd):
        def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                     padding_mode="zeros", device=None, dtype=None):
            super().__init__(in_channels, out_channels, ntuple(kernel_size, rank), ntuple(stride, rank),
                             padding if isinstance(padding, str) else ntuple(padding, rank),
                             ntuple(dilation, rank), False, (0,) * rank, groups, bias, padding_mode, device, dtype)

        def _conv_forward(self, input, weight, bias):
            if self.padding_mode != "zeros":
                input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
                return getattr(F, function)(input, weight, bias, self.stride, (0,) * rank, self.dilation, self.groups)
            return getattr(F, function)(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)

        def forward(self, input):
            return self._conv_forward(input, self.weight, self.bias)

    Conv.__name__ = Conv.__qualname__ = f"Conv{rank}d"
    Conv.__doc__ = f"Cross-correlation over {rank} dimension(s): [n, c, *space] -> [n, o, *out]."
    return Conv


class _ConvTransposeNd(_ConvNd):
    """Base class of transposed convolutions."""

    def _output_padding(self, input, output_size, rank):
        if output_size is None:
            return self.output_padding
        size = list(output_size)[-rank:]
        low = [(input.size(k - rank) - 1) * self.stride[k] - 2 * self.padding[k] + self.dilation[k]
               * (self.kernel_size[k] - 1) + 1 for k in range(rank)]
        high = [m + s - 1 for m, s in zip(low, self.stride)]
        if any(not a <= s <= b for s, a, b in zip(size, low, high)):
            raise ValueError(
                f"requested an output size of {size}, but valid sizes range from {low} to {high} (for an input of "
                f"{list(input.shape)[2:]})")
        return tuple(s - a for s, a in zip(size, low))


def transposed_class(rank):
    function = f"conv_transpose{rank}d"

    class ConvTranspose(_ConvTransposeNd):
        def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                     bias=True, dilation=1, padding_mode="zeros",
                     device=None, dtype=None):
            if padding_mode != "zeros":
                raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
            super().__init__(in_channels, out_channels, ntuple(kernel_size, rank), ntuple(stride, rank),
                             ntuple(padding, rank), ntuple(dilation, rank), True,
                             ntuple(output_padding, rank), groups, bias, padding_mode, device, dtype)

        def forward(self, input, output_size=None):
            extra = self._output_padding(input, output_size, rank)
            return getattr(F, function)(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
                                        self.dilation)

    ConvTranspose.__name__ = ConvTranspose.__qualname__ = f"ConvTranspose{rank}d"
    ConvTranspose.__doc__ = f"The transpose of Conv{rank}d: [n, c, *space] -> [n, o, *out]."
    return ConvTranspose


Conv1d, Conv2d, Conv3d = map(convolution_class, (1, 2, 3))
ConvTranspose1d, ConvTranspose2d, ConvTranspose3d = map(transposed_class, (1, 2, 3))


def lazy_class(base):
    class Lazy(LazyModuleMixin, base):
        cls_to_become = base

        def __init__(self, out_channels, kernel_size, *args, bias=True, device=None, dtype=None, **kwargs):
            super().__init__(0, 0, kernel_size, *args, bias=False, device=device, dtype=dtype, **kwargs)
            self.out_channels = out_channels
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)

        def reset_parameters(self):
            if self.in_channels:
                super().reset_parameters()

        def initialize_parameters(self, input, *args, **kwargs):
            if self.has_uninitialized_params():
                rank = len(self.kernel_size)
                if input.dim() not in (rank + 1, rank + 2):
                    raise RuntimeError(
                        f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {type(self).__name__}, "
                        f"but got input of size: {list(input.shape)}")
                self.materialize(input.shape[-rank - 1])
            elif self.in_channels == 0:  # its parameters were loaded
                self.in_channels = self.weight.size(0 if self.transposed else 1) * (1 if self.transposed
                                                                                    else self.groups)

        def materialize(self, channels):
            if channels % self.groups:
                raise ValueError("in_channels must be divisible by groups")
            self.in_channels = channels
            pair = (channels, self.out_channels) if self.transposed else (self.out_channels, channels)
            self.weight.materialize((pair[0], pair[1] // self.groups, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()

    Lazy.__name__ = Lazy.__qualname__ = f"Lazy{base.__name__}"
    Lazy.__doc__ = f"A {base.__name__} that learns its number of input channels from its first input."
    return Lazy


LazyConv1d, LazyConv2d, LazyConv3d = map(lazy_class, (Conv1d, Conv2d, Conv3d))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = map(lazy_class, (ConvTranspose1d, ConvTranspose2d,
                                                                                 ConvTranspose3d))
