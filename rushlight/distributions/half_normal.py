"""HalfNormal: the size of a normal variable."""
from __future__ import annotations

import math

from .folded import Folded
from .normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Folded):
    """|x| for x normal with mean 0 and standard deviation ``scale``."""

    _family = Normal
    mean = property(lambda self: math.sqrt(2 / math.pi) * self.scale)
    variance = property(lambda self: (1 - 2 / math.pi) * self.scale.square())
