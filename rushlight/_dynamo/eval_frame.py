"""What ``compile`` makes of a module."""
from ..compiling import OptimizedModule

__all__ = ["OptimizedModule"]
