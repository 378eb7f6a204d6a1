"""Normalisation layers."""
from __future__ import annotations

import numbers

from .. import functional as F
from .. import init
from .linear import enter_parameters, shown
from .module import Module


class _Affine(Module):
    """A norm with parameters that scale (``weight``) and perhaps shift (``bias``) its result."""

    def reset_parameters(self):
        """Ones and zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if getattr(self, "bias", None) is not None:
            init.zeros_(self.bias)


class _OverLast(_Affine):
    """A norm over the last dimensions, ``normalized_shape``."""

    def _rush_enter(self, normalized_shape, eps, elementwise_affine, wanted, device, dtype):
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape,
                                                                  numbers.Integral) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        enter_parameters(self, self.normalized_shape, wanted, device, dtype)
        self.reset_parameters()


class LayerNorm(_OverLast):
    """Normalised over the last dimensions, scaled and shifted (Ba et al. 2016).

    >>> torch.nn.LayerNorm(2)(torch.tensor([[1., 3.]])).tolist()[0][1] > 0.99
    True
    """

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self._rush_enter(normalized_shape, eps, elementwise_affine,
                         {"weight": elementwise_affine, "bias": elementwise_affine and bias}, device, dtype)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, {shown(self, 'eps', 'elementwise_affine', 'bias')}"


class RMSNorm(_OverLast):
    """Scaled to a root mean square of 1 over the last dimensions (Zhang & Sennrich 2019).

    >>> torch.nn.RMSNorm(4)(torch.ones(2, 4)).shape
    torch.Size([2, 4])
    """

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self._rush_enter(normalized_shape, eps, elementwise_affine, {"weight": elementwise_affine}, device, dtype)

    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, {shown(self, 'eps', 'elementwise_affine')}"


class GroupNorm(_Affine):
    """Normalised over groups of channels (Wu & He 2018).

    >>> torch.nn.GroupNorm(2, 4)(torch.ones(1, 4, 3)).shape
    torch.Size([1, 4, 3])
    """

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, *, bias=True):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        enter_parameters(self, num_channels, {"weight": affine, "bias": affine and bias}, device, dtype)
        self.reset_parameters()

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.num_groups}, {self.num_channels}, {shown(self, 'eps', 'affine', 'bias')}"


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of squares of adjacent channels) ** beta.

    >>> torch.nn.LocalResponseNorm(2)(torch.ones(1, 4, 3)).shape
    torch.Size([1, 4, 3])
    """

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f"{self.size}, {shown(self, 'alpha', 'beta', 'k')}"


class CrossMapLRN2d(LocalResponseNorm):
    """Local response normalisation across maps."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1):
        super().__init__(size, alpha, beta, k)
