"""Convolution with sampling positions moved by offsets."""
from __future__ import annotations

import math

import rushlight as torch
from rushlight import nn

__all__ = ["DeformConv2d", "deform_conv2d"]


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def deform_conv2d(input, offset, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), mask=None):
    """A convolution that reads at positions moved by ``offset``, weighted by ``mask`` (Dai et al. 2017, Zhu et al.
    2018).

    input [n, c, h, w], weight [o, c / groups, kh, kw], offset [n, 2 * offset groups * kh * kw, oh, ow] (y before x),
    mask [n, offset groups * kh * kw, oh, ow] -> [n, o, oh, ow].  RuntimeError where these do not fit.
    """
    (sh, sw), (ph, pw), (dh, dw) = pair(stride), pair(padding), pair(dilation)
    n, c, h, w = input.shape
    out, per, kh, kw = weight.shape
    oh, ow = (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (w + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    places, groups = kh * kw, c // per
    parts = offset.shape[1] // (2 * places)
    if parts == 0:
        raise RuntimeError("the shape of the offset tensor at dimension 1 is not valid. It should be a multiple of "
                           f"2 * weight.size[2] * weight.size[3].\nGot offset.shape[1]={offset.shape[1]}, while 2 * "
                           "weight.size[2] "
                           f"* weight.size[3]={2 * places}")
    if tuple(offset.shape) != (n, 2 * parts * places, oh, ow):
        raise RuntimeError(f"offset output dims: expected {(n, 2 * parts * places, oh, ow)}, got {tuple(offset.shape)}")
    if mask is not None and tuple(mask.shape) != (n, parts * places, oh, ow):
        raise RuntimeError(f"mask output dims: expected {(n, parts * places, oh, ow)}, got {tuple(mask.shape)}")
    moved = offset.reshape(n, parts, kh, kw, 2, oh, ow)
    rows = torch.arange(kh).reshape(kh, 1, 1, 1) * dh + torch.arange(oh).reshape(oh, 1) * sh - ph
    columns = torch.arange(kw).reshape(kw, 1, 1) * dw + torch.arange(ow) * sw - pw
    y, x = moved[:, :, :, :, 0] + rows, moved[:, :, :, :, 1] + columns  # [n, parts, kh, kw, oh, ow]
    seen = bilinear(input.reshape(n, parts, c // parts, h * w), y.flatten(2), x.flatten(2), h, w)
    if mask is not None:
        seen = seen * mask.reshape(n, parts, 1, -1)
    seen = seen.reshape(n, groups, per * places, oh * ow)
    made = torch.matmul(weight.reshape(groups, out // groups, per * places), seen).reshape(n, out, oh, ow)
    return made if bias is None else made + bias.reshape(1, out, 1, 1)


def bilinear(input, y, x, h, w):
    """Bilinear samples at positions [n, parts, k] of images [n, parts, c, h * w], 0 outside: [n, parts, c, k]."""
    low_y, low_x = y.detach().floor(), x.detach().floor()
    fy, fx = y - low_y, x - low_x
    total = None
    for rows, part_y in ((low_y, 1 - fy), (low_y + 1, fy)):
        for columns, part_x in ((low_x, 1 - fx), (low_x + 1, fx)):
            inside = (rows >= 0) & (rows < h) & (columns >= 0) & (columns < w)
            at = (rows.clamp(0, h - 1) * w + columns.clamp(0, w - 1)).long()
            value = input.gather(3, at.unsqueeze(2).expand(*input.shape[:3], at.shape[2]))
            part = value * (part_y * part_x * inside).unsqueeze(2)
            total = part if total is None else total + part
    return total


class DeformConv2d(nn.Module):
    """``deform_conv2d`` with weights of its own."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True):
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError("in_channels and out_channels must be divisible by groups")
        self.in_channels, self.out_channels, self.kernel_size, self.groups = in_channels, out_channels, pair(
            kernel_size), groups
        self.stride, self.padding, self.dilation = pair(stride), pair(padding), pair(dilation)
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input, offset, mask=None):
        return deform_conv2d(input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask)

    def extra_repr(self):
        return (f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
                f"padding={self.padding}, "
                f"dilation={self.dilation}, groups={self.groups}, bias={self.bias is not None}")
