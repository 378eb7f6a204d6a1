"""What calls on DTensors exchange."""
from ...._src.core.later import later

__getattr__ = later(__name__, {"_comm_mode": ("CommDebugMode",)})
