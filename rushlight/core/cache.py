"""The disk cache: compiled objects and what was measured or asked once, one checked file an entry.

It lives in `~/.cache/rushlight`, or where `RUSHLIGHT_CACHE` says; `RUSHLIGHT_CACHE=0` disables it. Every entry is best
effort: one that is missing, damaged or unreadable is rebuilt, and a directory that cannot be written costs only time.
"""

import hashlib
import logging
import os
import struct
import tempfile
import zlib

from .. import __version__
from .settings import settings

logger = logging.getLogger("rushlight.cache")

_MAGIC = b"RLC1"
MOST_ENTRIES = 25_600  # of a kind: a write removes the oldest beyond
_HEADER = struct.Struct("<4sIQ")  # magic, crc32 of the payload, its length


def directory():
    """The cache's folder as a string, or None when it is disabled."""
    setting = settings.cache
    if setting == "0":
        return None
    if setting:
        return setting
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "rushlight")


def _path(folder, kind, key):
    digest = hashlib.sha256(f"{__version__}\0{key}".encode()).hexdigest()
    return os.path.join(folder, kind, digest[:2], digest[2:34])


def get(kind, key):
    """The bytes stored under a kind (a folder name) and a key (any text), or None.

    Example:
        >>> get("object", "a key nobody stored") is None
        True
    """
    folder = directory()
    if folder is None:
        return None
    path = _path(folder, kind, key)
    try:
        with open(path, "rb") as file:
            entry = file.read()
    except OSError:
        return None
    payload = entry[_HEADER.size:]
    if len(entry) >= _HEADER.size:
        magic, checksum, length = _HEADER.unpack_from(entry)
        if magic == _MAGIC and length == len(payload) and checksum == zlib.crc32(payload):
            return payload
    logger.warning("dropping a damaged cache entry: %s", path)
    return None


def put(kind, key, payload):
    """Stores bytes under a kind and a key; readers and other processes see all of it or nothing.

    Returns whether it was stored: a disabled cache or an unwritable folder is no error.
    """
    folder = directory()
    if folder is None:
        return False
    path = _path(folder, kind, key)
    temporary = None
    try:
        # 0700: entries hold code that this user's processes will run
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
        with os.fdopen(handle, "wb") as file:
            file.write(_HEADER.pack(_MAGIC, zlib.crc32(payload), len(payload)) + payload)
        os.replace(temporary, path)
        _trim(os.path.dirname(path))
        return True
    except OSError as error:
        logger.info("not caching on disk: %s", error)
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        return False


def _trim(folder):
    """Removes the oldest entries beyond a folder's share: entries spread evenly over 256 folders of each kind."""
    entries = list(os.scandir(folder))
    if len(entries) > MOST_ENTRIES // 256:
        for entry in sorted(entries, key=lambda e: e.stat().st_mtime)[:-MOST_ENTRIES // 256]:
            os.unlink(entry.path)
