"""Defaults for writing and reading the files of ``save``."""
from __future__ import annotations

import mmap
import threading

from .core.advice import warn
from .core.platform import here

class Options:
    """Settings with a fixed set of attributes that can be assigned.  AttributeError for other names."""

    idle = ()  # settings of PyTorch without an effect here

    def __setattr__(self, name, value):
        if not hasattr(type(self), name) or name == "idle":
            raise AttributeError(f"unknown setting {name!r}")
        if name in self.idle and value != getattr(type(self), name):
            warn(f"{name} = {value!r} has no effect")
        super().__setattr__(name, value)


class Save(Options):
    """Settings of ``save``."""

    compute_crc32 = True  # checksums of entries, to detect damage
    storage_alignment = 64  # bytes
    use_pinned_memory_for_d2h = False
    idle = ("use_pinned_memory_for_d2h",)


class Load(Options):
    """Settings of ``load``."""

    mmap_flags = getattr(mmap, "MAP_PRIVATE", None)
    mmap = False
    endianness = None
    calculate_storage_offsets = False
    idle = ("calculate_storage_offsets",)


class Skipping(threading.local):
    """Flag: storages have space in files, but their bytes are neither written nor read."""

    on = False


saving, loading, skipping = Save(), Load(), Skipping()


def get_crc32_options() -> bool:
    """True if ``save`` writes a checksum with each entry, by which reading detects damage.

    >>> get_crc32_options()
    True
    """
    return saving.compute_crc32


def set_crc32_options(compute_crc32: bool):
    """Choose if ``save`` writes checksums; other programs may refuse to open an archive without."""
    saving.compute_crc32 = bool(compute_crc32)


def get_default_mmap_options():
    """Mapping of ``load(mmap=True)``: ``mmap.MAP_PRIVATE`` (writes stay in this process) or ``mmap.MAP_SHARED`` (writes
    go into the file)."""
    return loading.mmap_flags


class set_default_mmap_options:  # noqa: N801 - PyTorch's name
    """Set how ``load(mmap=True)`` maps files, globally or in a ``with`` block.  ValueError for other flags."""

    def __init__(self, flags: int):
        if not here.forks:
            raise RuntimeError("Changing the default mmap options is currently not supported for Windows")
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(f"Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or "
                             f"mmap.MAP_SHARED, but got {flags}")
        self.before = loading.mmap_flags
        loading.mmap_flags = flags

    def __enter__(self):
        return self

    def __exit__(self, *error):
        loading.mmap_flags = self.before


class skip_data:  # noqa: N801 - PyTorch's name
    """A block in which ``save`` leaves space for the bytes of storages without writing them (they are 0 in the file),
    and ``load`` makes storages without reading them.  NotImplementedError for ``materialize_fake_tensors``."""

    def __init__(self, materialize_fake_tensors: bool = False):
        if materialize_fake_tensors:
            raise NotImplementedError("materialize_fake_tensors: make the tensors with torch.empty_like first")

    def __enter__(self):
        self.before = skipping.on
        skipping.on = True

    def __exit__(self, *error):
        skipping.on = self.before
