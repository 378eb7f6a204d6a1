"""What the package asks of the operating system that it runs on: ``here`` is one of ``Linux``, ``MacOS``, ``Windows``,
or ``Posix`` for others.  Nothing else in the package looks at ``sys.platform``, or calls what only some systems have.
"""
import sys

from .base import Platform, Refused

__all__ = ["Platform", "Refused", "here", "of_system"]


def of_system(name: str) -> Platform:
    """The platform of a system by Python's name of it (``sys.platform``), of which no other one's module is loaded."""
    if name == "win32":
        from .windows import Windows
        return Windows()
    if name == "darwin":
        from .macos import MacOS
        return MacOS()
    if name.startswith("linux"):
        from .linux import Linux
        return Linux()
    from .posix import Posix
    return Posix()


here = of_system(sys.platform)
