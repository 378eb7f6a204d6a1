"""What ``compile`` makes of a module."""
from .._src.compiling import OptimizedModule

__all__ = ["OptimizedModule"]
