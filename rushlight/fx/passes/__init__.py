"""Passes over graphs: each reads one and notes or changes something."""
from ...core.later import later


__getattr__ = later(__name__)
