"""Preparation and conversion of traced models."""
from ...._src.core.later import later

__getattr__ = later(__name__)
