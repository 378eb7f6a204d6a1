"""Layers in a row, taken as one, that learn with rounded weights."""
from ....._src.core.later import later

__getattr__ = later(__name__)
