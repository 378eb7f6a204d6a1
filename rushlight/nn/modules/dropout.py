"""Dropout layers."""
from __future__ import annotations

from .. import functional as F
from .module import Module


class _DropoutNd(Module):
    """Elements or channels zeroed with probability p in training."""

    _rush_function = "dropout"

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input):
        return getattr(F, self._rush_function)(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Elements zeroed with probability p, the others scaled by 1 / (1 - p) (Hinton et al. 2012).

    >>> torch.nn.Dropout(0.5).eval()(torch.ones(3))
    tensor([1., 1., 1.])
    """


class Dropout1d(_DropoutNd):
    """Channels of [n, c, l] zeroed with probability p.

    >>> torch.nn.Dropout1d(0.5).eval()(torch.ones(2, 3)).shape
    torch.Size([2, 3])
    """

    _rush_function = "dropout1d"


class Dropout2d(_DropoutNd):
    """Channels of [n, c, h, w] zeroed with probability p.

    >>> torch.nn.Dropout2d(0.5).eval()(torch.ones(1, 2, 3, 3)).shape
    torch.Size([1, 2, 3, 3])
    """

    _rush_function = "dropout2d"


class Dropout3d(_DropoutNd):
    """Channels of [n, c, d, h, w] zeroed with probability p."""

    _rush_function = "dropout3d"


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance under SELU.

    >>> torch.nn.AlphaDropout().eval()(torch.ones(3))
    tensor([1., 1., 1.])
    """

    _rush_function = "alpha_dropout"


class FeatureAlphaDropout(_DropoutNd):
    """Whole channels dropped so that mean and variance stay under SELU."""

    _rush_function = "feature_alpha_dropout"
