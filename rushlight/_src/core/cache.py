"""The disk cache: compiled objects and results of measurements and queries, one signed file an entry.

It is stored in ``~/.cache/rushlight``, or where ``RUSHLIGHT_CACHE`` says; ``RUSHLIGHT_CACHE=0`` disables it. A relative
path is relative to the working directory in which the process first used the cache. Without a writable home directory,
it is a private directory among the temporary files. Entries are machine code that this process will run, so the
directory must belong to this user alone, and each entry is signed (``folder.py``). The cache is best effort: an entry
that is missing, damaged or written by another user is rebuilt, and a directory that is rejected or not writable costs
only time.

All entries together take at most ``RUSHLIGHT_CACHE_MB``, plus 1/32. There is no running total: a write scans all
entries with a probability proportional to its size, and then removes the least recently used ones (``Folder.trim``).
"""

import functools
import hashlib
import logging
import os
import re
import struct

from ..version import VERSION
from . import folder as folders
from .platform import here
from .settings import settings

logger = logging.getLogger("rushlight.cache")

CHECKS = 32  # times that all entries are looked through while as much is written as the cache may hold
_CARRIED = struct.Struct("<IQ")  # lengths of a name and an entry
_ARTIFACTS = b"RLA2"
_NAME = re.compile("[a-z]+/[0-9a-f]{2}/[0-9a-f]+")


@functools.cache
def _opened(setting, base, home, user):
    """The ``Folder`` that the environment names, or None, with a logged reason; ``user`` is part of the cache key."""
    try:
        if setting:
            return folders.Folder(os.path.abspath(setting))
        base = base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), ".cache")
        try:
            if os.path.isabs(base):
                return folders.Folder(os.path.join(base, "rushlight"))
        except folders.Refused:
            raise
        except OSError as error:
            logger.info("no cache in %s: %s", base, error)
        import tempfile  # seldom needed
        return folders.Folder(os.path.join(tempfile.gettempdir(), f"rushlight-{user}"))
    except OSError as error:
        logger.warning(
            "working without a disk cache: %s. Set RUSHLIGHT_CACHE to another directory, or correct its owner and "
            "permissions (chmod 700).", error)
        return None


def current():
    """The directory that settings name, opened; None if the cache is disabled or the directory rejected."""
    setting = settings.cache
    if setting == "0":
        return None
    return _opened(setting, os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME"), here.user())


def directory():
    """The path of the cache's directory, or None if it is disabled or rejected."""
    folder = current()
    return folder and folder.path


def _name(kind, key):
    digest = hashlib.sha256(f"{VERSION}\0{key}".encode()).hexdigest()
    return f"{kind}/{digest[:2]}/{digest[2:34]}"


@functools.cache
def _passing():
    """A ``Folder`` without a directory, with a secret of this process alone."""
    folder = object.__new__(folders.Folder)
    folder.secret = os.urandom(folders.LENGTH)
    return folder


def seal(kind, data) -> bytes:
    """A signature that proves that a process of this user, with this cache, had these bytes; without a cache: this
    process."""
    return (current() or _passing()).signature(kind, data)


def stamp(folder):
    """A digest of the names, sizes and times of a directory's source files and tables, which changes when one of them
    is edited."""
    found = []
    for base, _, names in os.walk(folder):
        for name in names:
            if name.endswith((".py", ".txt")):
                path = os.path.join(base, name)
                status = os.stat(path)
                found.append(f"{os.path.relpath(path, folder)} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()[:16]


OWN = ("met", "choices")  # kinds of entries that describe this machine alone and are never exported
touched: set = set()  # (kind, path within it) of entries that this process read or wrote


def get(kind, key, folder=None):
    """The bytes stored under a kind (a directory name) and a key (any string), or None. ``folder``: one that was
    current before (``current``).

    Example:
        >>> get("object", "a key nobody stored") is None
        True
    """
    folder = folder or current()
    return folder and _read(folder, _name(kind, key))


def _read(folder, name):
    """An entry's bytes, or None; logs a warning for an entry with a wrong signature."""
    try:
        payload = folder.get(name)
    except folders.Refused as refusal:
        logger.warning("dropping a damaged cache entry: %s", refusal)
        return None
    except OSError:
        return None
    _touch(name)
    return payload


def put(kind, key, payload):
    """Store bytes under a kind and a key; readers and other processes see all of it or nothing.

    Returns True if it was stored: a disabled cache or a directory that is not writable is no error.
    """
    folder = current()
    return folder is not None and _write(folder, _name(kind, key), payload)


def _touch(name):
    kind, path = name.split("/", 1)
    if kind not in OWN:
        touched.add((kind, path))


def _write(folder, name, payload):
    """Makes an entry appear whole."""
    try:
        if not folder.current():  # it was removed while this process ran
            folder.open()
        folder.put(name, payload)
        most = settings.cache_mb << 20
        if int.from_bytes(os.urandom(6), "little") * most < (folders.taken(len(payload)) * CHECKS << 48):
            folder.trim(most)
    except OSError as error:
        logger.info("not caching on disk: %s", error)
        return False
    _touch(name)
    return True


# --- carrying entries to another machine ------------------------------------------------------------------------------
def carried() -> bytes:
    """Every entry that this process read or wrote, as bytes for ``unpack``, except entries removed meanwhile. They are
    not signed: the caller of ``unpack`` vouches for them."""
    folder, found = current(), []
    for name in sorted(map("/".join, touched)):
        try:
            payload = folder.get(name)
        except OSError:
            logger.info("an entry is gone, and not carried: %s", name)
        else:
            found.append(_CARRIED.pack(len(name), len(payload)) + name.encode() + payload)
    whole = b"".join(found)
    return whole and _ARTIFACTS + hashlib.sha256(whole).digest() + whole


def unpack(data: bytes) -> list:
    """Store the bytes returned by ``carried``, signed by this user, and return the names; existing entries stay.

    They hold machine code that later calls run: unpack only data from trusted sources. Raises ValueError, before
    anything is stored, for any other bytes. Entries made under another version or on another CPU are stored and never
    found.
    """
    folder, entries = current(), list(_entries(data))
    for name, payload in entries:
        if folder is not None and _read(folder, name) is None:
            _write(folder, name, payload)
    return [name for name, _ in entries]


def _entries(data):
    start = len(_ARTIFACTS) + 32
    if data and (data[:4] != _ARTIFACTS or hashlib.sha256(data[start:]).digest() != data[4:start]):
        raise ValueError("these are not cache artifacts, or they are damaged")
    at = start
    while at < len(data):
        name_length, length = _CARRIED.unpack_from(data, at) if at + _CARRIED.size <= len(data) else (0, 0)
        at += _CARRIED.size
        name, payload = data[at:at + name_length].decode(errors="replace"), data[at + name_length:at + name_length
                                                                                 + length]
        at += name_length + length
        if _NAME.fullmatch(name) is None or len(payload) != length:
            raise ValueError("these are not cache artifacts: the bytes end in the middle of an entry")
        yield name, payload
