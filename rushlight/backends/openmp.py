"""Switches of OpenMP, which is not used: kernels run on our own pool of threads."""
from ..compat.devices import switches

globals().update(switches())
