"""Autograd nodes by the names that ``torch._C._functions`` has for them."""
from .._src.autograd.node import AccumulateGrad
from .._src.autograd.passing import DelayedError, UndefinedGrad

__all__ = ["AccumulateGrad", "DelayedError", "UndefinedGrad"]
