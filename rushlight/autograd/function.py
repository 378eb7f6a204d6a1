"""Functions with a backward of their own."""
from .._src.autograd.function import BackwardCFunction, Context, Function, FunctionCtx, InplaceFunction, expands, once_differentiable, version_of

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]
