"""Switches of opt_einsum, which is not used: einsum chooses itself which operands to contract first."""
from .._src.compat.devices import switches

globals().update(switches())
