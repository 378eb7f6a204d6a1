"""Functions with a backward of their own."""
from .._src.autograd.function import BackwardCFunction, Function, FunctionCtx, InplaceFunction, once_differentiable
