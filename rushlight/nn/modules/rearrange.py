"""Layers that rearrange or resample: padding, flattening, pixel shuffles, upsampling, distances."""
from __future__ import annotations

from .. import functional as F
from .module import Module


class _Padding(Module):
    """Pads the last ``rank`` dimensions."""

    _rush_rank, _rush_mode = 0, ""

    def __init__(self, padding):
        super().__init__()
        self.padding = (padding,) * (2 * self._rush_rank) if isinstance(padding, int) else tuple(padding)

    def forward(self, input):
        return F.pad(input, self.padding, self._rush_mode)

    def extra_repr(self):
        return f"{self.padding}"


class _ConstantPadNd(_Padding):
    """Pads the last ``rank`` dimensions with a value."""

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, self._rush_mode, self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class _ZeroPadNd(_ConstantPadNd):
    """Pads the last ``rank`` dimensions with zeros."""

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


def padding_class(name, dimensions, how, base=_Padding):
    class Made(base):
        _rush_rank, _rush_mode = dimensions, how

    Made.__name__ = Made.__qualname__ = f"{name}Pad{dimensions}d"
    Made.__doc__ = f"Pads the last {dimensions} dimension(s)."
    return Made


CircularPad1d, CircularPad2d, CircularPad3d = (padding_class("Circular", r, "circular") for r in (1, 2, 3))
ConstantPad1d, ConstantPad2d, ConstantPad3d = (padding_class("Constant", r, "constant", _ConstantPadNd)
                                               for r in (1, 2, 3))
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = (padding_class("Reflection", r, "reflect") for r in (1, 2, 3))
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = (padding_class("Replication", r, "replicate") for r in (1, 2, 3))
ZeroPad1d, ZeroPad2d, ZeroPad3d = (padding_class("Zero", r, "constant", _ZeroPadNd) for r in (1, 2, 3))


class Flatten(Module):
    """Dimensions start..end joined into one.

    >>> torch.nn.Flatten()(torch.ones(2, 3, 4)).shape
    torch.Size([2, 12])
    """

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self):
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One dimension split into several.

    >>> torch.nn.Unflatten(1, (2, 3))(torch.ones(4, 6)).shape
    torch.Size([4, 2, 3])
    """

    def __init__(self, dim, unflattened_size):
        super().__init__()
        if isinstance(unflattened_size, int) or not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}")
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self):
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class PixelShuffle(Module):
    """[*, c r r, h, w] -> [*, c, h r, w r].

    >>> torch.nn.PixelShuffle(2)(torch.ones(1, 4, 2, 2)).shape
    torch.Size([1, 1, 4, 4])
    """

    def __init__(self, upscale_factor):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input):
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self):
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """[*, c, h r, w r] -> [*, c r r, h, w].

    >>> torch.nn.PixelUnshuffle(2)(torch.ones(1, 1, 4, 4)).shape
    torch.Size([1, 4, 2, 2])
    """

    def __init__(self, downscale_factor):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input):
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self):
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Channels interleaved between groups.

    >>> torch.nn.ChannelShuffle(2)(torch.arange(4.).reshape(1, 4, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, input):
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self):
        return f"groups={self.groups}"


class Upsample(Module):
    """Resampled to a size or by a factor.

    >>> torch.nn.Upsample(scale_factor=2)(torch.ones(1, 1, 3, 3)).shape
    torch.Size([1, 1, 6, 6])
    """

    def __init__(self, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None):
        super().__init__()
        self.name = type(self).__name__
        self.size, self.mode, self.align_corners, self.recompute_scale_factor = (size, mode, align_corners,
                                                                                 recompute_scale_factor)
        self.scale_factor = tuple(map(float, scale_factor)) if isinstance(scale_factor,
                                                                          tuple) else float(
                                                                              scale_factor) if scale_factor else None

    def forward(self, input):
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners,
                             self.recompute_scale_factor)

    def extra_repr(self):
        first = f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        return f"{first}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Nearest-neighbour upsampling of images."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Bilinear upsampling of images, corners aligned."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class Fold(Module):
    """[n, c * kernel, windows] -> [n, c, *output_size], overlaps added.

    >>> torch.nn.Fold((4, 4), 2, stride=2)(torch.ones(1, 4, 4)).shape
    torch.Size([1, 1, 4, 4])
    """

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.output_size, self.kernel_size, self.dilation, self.padding, self.stride = (output_size, kernel_size,
                                                                                        dilation, padding, stride)

    def forward(self, input):
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self):
        return (f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
                f"padding={self.padding}, stride={self.stride}")


class Unfold(Module):
    """Columns of every window: [n, c, h, w] -> [n, c * kernel, windows].

    >>> torch.nn.Unfold(2, stride=2)(torch.ones(1, 1, 4, 4)).shape
    torch.Size([1, 4, 4])
    """

    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input):
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along a dimension.

    >>> torch.nn.CosineSimilarity()(torch.tensor([[1., 0.]]), torch.tensor([[1., 1.]]))
    tensor([0.7071])
    """

    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 over the last dimension.

    >>> torch.nn.PairwiseDistance()(torch.zeros(1, 2), torch.tensor([[3., 4.]]))
    tensor([5.0000])
    """

    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1, x2):
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
