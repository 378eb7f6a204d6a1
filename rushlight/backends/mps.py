"""Switches of Metal, which is not used."""
from .._src.compat.devices import switches

globals().update(switches())
