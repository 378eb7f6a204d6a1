"""Layers that learn with rounded weights."""
from ....._src.core.later import Beyond, later

__all__ = Beyond.names(__name__)
__getattr__ = later(__name__)
