"""Devices of type "xpu": none here.  Questions are answered so; what would need a device refuses."""
from .._src.compat.devices import device_module

globals().update(device_module("xpu"))
