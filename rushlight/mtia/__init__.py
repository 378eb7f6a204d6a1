"""Devices of type "mtia": none here.  Questions are answered so; what would need a device refuses."""
from ..compat.devices import device_module
from ..core.later import later

globals().update(device_module("mtia"))
__getattr__ = later(__name__)
