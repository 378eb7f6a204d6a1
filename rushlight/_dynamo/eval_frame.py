"""What ``compile`` makes of a module."""
from ..compiling import OptimizedModule
from ..core.later import later

__all__ = ["OptimizedModule"]
__getattr__ = later(__name__)
