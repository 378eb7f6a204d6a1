"""The interface to the operating system: ``here`` is one of ``Linux``, ``MacOS``, ``Windows``, or ``Posix`` for others.
No other part of the package reads ``sys.platform``, or calls functions that only some systems have.
"""
import sys

from .base import Platform, Refused

__all__ = ["Platform", "Refused", "here", "of_system"]


def of_system(name: str) -> Platform:
    """The platform of a system by Python's name of it (``sys.platform``); the modules of other platforms are not
    loaded."""
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
