"""Tracing below autograd."""
from ...core.later import later


__getattr__ = later(__name__)
