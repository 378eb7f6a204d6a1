"""Counters of the collectives of DTensors."""
from ...._src.core.later import later

__getattr__ = later(__name__, {"_comm_mode": ("CommDebugMode",)})
