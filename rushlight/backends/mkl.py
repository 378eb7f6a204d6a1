"""Switches of MKL, which is not used."""
from ..compat.devices import switches

globals().update(switches())
