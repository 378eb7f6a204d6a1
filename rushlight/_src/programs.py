"""Files of programs (``export.save``, ``jit.save``): pickles, which can run code when they are read, so that only
trusted ones are read.

Files that this user wrote on this machine are trusted: the archive contains a signature of its pickle, by the secret of
the disk cache (``core/folder.py``).  For all other files the caller must pass ``trusted``.
"""
from __future__ import annotations

import hmac
import io
import os
import pickle

from .core import cache
from .code_pickles import CodePickler
from .core.files import replaced
from ..serialization import MAP_LOCATION, Storages, Unpickler, byte_order, entry, opened, place_of, write_archive

SIGNATURE = "signature"
REFUSED = ("this file holds a program, and reading it may run any code; it was not written here by this user. If you "
           "trust where it comes from, say so: {name}(f, trusted=True). "
           "To move weights alone, save a state_dict().")


def save(obj, f):
    """Write a program to a path or file, signed, with the code of classes and functions that cannot be imported."""
    if hasattr(f, "write"):
        write_archive(obj, f, "archive", seal, write_code)
    else:
        name = os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"
        with replaced(f) as file:
            write_archive(obj, file, name, seal, write_code)


def write_code(kind, text) -> CodePickler:
    """Return the pickler of a program, instead of one of ``kind``, which archives use by default."""
    return CodePickler(text)


def seal(text) -> tuple[str, bytes]:
    """Name and content of the entry that signs a pickle."""
    return SIGNATURE, cache.seal("program", text)


def load(f, name: str, trusted=False, map_location: MAP_LOCATION = None):
    """Return the program in a file.  UnpicklingError if neither this user wrote it here nor the caller trusts it;
    ``name``: the caller."""
    if not hasattr(f, "read"):
        with open(f, "rb") as file:
            return load(file, name, trusted, map_location)
    archive, prefix = opened(f)
    text = bytes(entry(archive, f"{prefix}data.pkl"))
    if not trusted:
        found = bytes(entry(archive, prefix + SIGNATURE)) if prefix + SIGNATURE in archive.namelist() else b""
        if not hmac.compare_digest(found, seal(text)[1]):
            raise pickle.UnpicklingError(REFUSED.format(name=name))
    return Unpickler(io.BytesIO(text),
                     Storages(archive, f"{prefix}data/", place_of(map_location), byte_order(archive, prefix))).load()
