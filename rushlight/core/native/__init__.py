"""The hot path, in a typed subset of Python that is also compiled (see ``language``)."""
from .allocator import Storage, allocate, pool
from .calls import Op, wrap
from .objects import Plan, Step, Tensor, state

__all__ = ["Op", "Plan", "Step", "Storage", "Tensor", "allocate", "pool", "state", "wrap"]
