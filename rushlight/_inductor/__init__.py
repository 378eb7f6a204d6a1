"""PyTorch's ``torch._inductor`` names: the compiler, as a backend that other backends can call."""
from . import compile_fx

__all__ = ["compile_fx"]
