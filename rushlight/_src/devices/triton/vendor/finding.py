"""Find the libraries of GPUs' vendors: in ``RUSHLIGHT_VENDOR_PATH``, on the loader's path, or in wheels."""

from __future__ import annotations

import ctypes
import functools
import glob
import os
import sys

from ....core.log import logger
from ....core.platform import here
from ....core.settings import settings

log = logger("kernels")
WHEELS = "nvidia/*/lib", "_rocm_sdk_libraries*/lib", "nvidia/*/bin"  # directories of wheels, below those of sys.path


def folders() -> tuple:
    """Return further directories of libraries besides the loader's path: those of the setting, and those of wheels."""
    return folders_of(settings.vendor_path, tuple(sys.path))


@functools.lru_cache(maxsize=None)
def folders_of(named: str, paths: tuple) -> tuple:
    own = [path for path in named.split(os.pathsep) if path]
    return own, [found for path in paths for pattern in WHEELS
                 for found in sorted(glob.glob(os.path.join(path or ".", pattern)))]


@functools.lru_cache(maxsize=None)
def files_in(places: tuple, files: tuple) -> list:
    """Return the paths of files with these names, or patterns, in directories."""
    return [path for folder in places for file in files for path in sorted(glob.glob(os.path.join(folder, file)))]


def candidates(files: tuple) -> list:
    """Paths of files of these names: where the setting says, then by the loader's path, then in wheels."""
    own, wheels = (files_in(tuple(places), files) for places in folders())
    return [*own, *files, *wheels]


@functools.lru_cache(maxsize=None)
def opened(files: tuple, needs: tuple = ()):
    """The library of the first of these names that there is; None where there is none.  ``needs``: names of others that
    it opens by name alone, so that wheels' have to be there before."""
    for path in candidates(files):
        if path.endswith(".dll") != (here.name == "windows"):
            continue
        for other in needs:
            preloaded(next((one for places in folders() for one in files_in(tuple(places), (other,))), ""))
        try:
            return ctypes.CDLL(path)
        except OSError as reason:
            log.debug("%s is not opened: %s", path, reason)
    return None


@functools.lru_cache(maxsize=None)
def preloaded(path: str):
    """A library that another one finds by its name, once it is there; "": none."""
    try:
        return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL) if path else None
    except OSError as reason:
        log.debug("%s is not opened: %s", path, reason)
        return None
