"""What ``compile`` makes of a module."""
from .._src.compiling import OptimizedModule

__all__ = ["OptimizedModule"]


def is_dynamo_supported() -> bool:
    """True: ``torch.compile`` captures programs on every Python and system that Rushlight runs on."""
    return True


def is_inductor_supported() -> bool:
    """True: captured programs are compiled wherever they are captured."""
    return True
