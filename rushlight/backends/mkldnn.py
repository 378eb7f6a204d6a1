"""Switches of oneDNN, which is not used."""
from ..compat.devices import switches

globals().update(switches())
