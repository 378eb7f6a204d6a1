"""Forward and backward compiled ahead, under PyTorch's name."""
from ..fx.aot import aot_function, aot_module, aot_module_simplified, nop

__all__ = ["aot_function", "aot_module", "aot_module_simplified", "nop", "make_boxed_func"]


def make_boxed_func(f):
    """A compiled function that takes its inputs in one list; here compilers return plain functions, so it is ``f``
    itself."""
    return f
