"""HalfCauchy: the size of a Cauchy variable."""
from __future__ import annotations

import math

import rushlight as torch
from .cauchy import Cauchy
from .folded import Folded

__all__ = ["HalfCauchy"]


class HalfCauchy(Folded):
    """|x| for x Cauchy with median 0 and half width ``scale``."""

    _family = Cauchy
    mean = variance = property(lambda self: torch.full_like(self.scale, math.inf))
