"""Switches of oneDNN, which is not used."""
from .._src.compat.devices import switches

globals().update(switches())
