"""Helpers of passes."""
from . import matcher_utils
from ....core.later import later

__all__ = ["matcher_utils"]
__getattr__ = later(__name__)
