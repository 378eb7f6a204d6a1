"""Switches of opt_einsum, which is not used."""
from ..compat.devices import switches

globals().update(switches())
