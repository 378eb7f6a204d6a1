"""Switches of OpenMP, which is not used: kernels run on our own pool of threads."""
from .._src.compat.devices import switches

globals().update(switches())
