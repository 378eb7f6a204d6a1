"""Helpers of passes."""
from . import matcher_utils  # noqa: F401
