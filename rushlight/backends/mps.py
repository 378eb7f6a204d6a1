"""Switches of Metal, which is not used."""
from ..compat.devices import switches
from ..core.later import later

globals().update(switches())
__getattr__ = later(__name__)
