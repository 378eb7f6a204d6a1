"""GPUs of macOS: whether an adapter of WebGPU has the name "mps"."""
import platform

from .. import mps as _mps
from .._src.compat.devices import switches

globals().update(switches())


def is_available() -> bool:
    """Whether there is an adapter on macOS."""
    return _mps.is_available()


is_built = is_available


def get_name() -> str:
    """Return the driver's name of the GPU; NoDeviceError if there is none."""
    return _mps.get_device_name()


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether this is macOS of at least this version.

    >>> import rushlight as torch
    >>> torch.backends.mps.is_macos_or_newer(1000, 0)
    False
    """
    version = platform.mac_ver()[0]
    return bool(version) and tuple(map(int, f"{version}.0".split(".")[:2])) >= (major, minor)


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Whether this is macOS 13 of at least this minor version."""
    return is_macos_or_newer(13, minor)
