"""Helpers of passes."""
from . import matcher_utils

__all__ = ["matcher_utils"]
