"""The disk cache: compiled objects and what was measured or asked once, one checked file an entry.

It lives in `~/.cache/rushlight`, or where `RUSHLIGHT_CACHE` says; `RUSHLIGHT_CACHE=0` disables it. Every entry is best
effort: one that is missing, damaged or unreadable is rebuilt, and a directory that cannot be written costs only time.
"""

import hashlib
import logging
import os
import re
import struct
import tempfile
import zlib

from .. import __version__
from .settings import settings

logger = logging.getLogger("rushlight.cache")

_MAGIC = b"RLC1"
MOST_ENTRIES, MOST_BYTES = 25_600, 1 << 30  # of a kind: a write removes the oldest beyond
_HEADER = struct.Struct("<4sIQ")  # magic, crc32 of the payload, its length
_CARRIED = struct.Struct("<IQ")  # lengths of a name and an entry
_NAME = re.compile("[a-z]+/[0-9a-f]{2}/[0-9a-f]+")


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


def stamp(folder):
    """A digest of the names, sizes and times of a folder's source files, which changes when one of them is edited."""
    found = []
    for base, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(base, name)
                status = os.stat(path)
                found.append(f"{os.path.relpath(path, folder)} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()[:16]


touched: set = set()  # (kind, path within it) of what this process read or wrote


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
    payload = _payload(entry)
    if payload is None:
        logger.warning("dropping a damaged cache entry: %s", path)
    else:
        touched.add((kind, os.path.relpath(path, os.path.join(folder, kind))))
    return payload


def _payload(entry):
    """What an entry holds; None where it is damaged."""
    payload = entry[_HEADER.size:]
    if len(entry) >= _HEADER.size:
        magic, checksum, length = _HEADER.unpack_from(entry)
        if magic == _MAGIC and length == len(payload) and checksum == zlib.crc32(payload):
            return payload
    return None


def put(kind, key, payload):
    """Stores bytes under a kind and a key; readers and other processes see all of it or nothing.

    Returns whether it was stored: a disabled cache or an unwritable folder is no error.
    """
    folder = directory()
    if folder is None:
        return False
    path = _path(folder, kind, key)
    stored = _write(path, _HEADER.pack(_MAGIC, zlib.crc32(payload), len(payload)) + payload)
    if stored:
        touched.add((kind, os.path.relpath(path, os.path.join(folder, kind))))
    return stored


def _write(path, entry):
    """Makes a file appear whole."""
    temporary = None
    try:
        # 0700: entries hold code that this user's processes will run
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
        with os.fdopen(handle, "wb") as file:
            file.write(entry)
        os.replace(temporary, path)
        _trim(os.path.dirname(path))
        return True
    except OSError as error:
        logger.info("not caching on disk: %s", error)
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        return False


def _trim(folder):
    """Removes the oldest entries of a folder that has more than its share, down to three quarters of it: entries spread evenly over 256 folders of
    each kind."""
    entries = [(entry.path, entry.stat()) for entry in os.scandir(folder)]
    most, room = MOST_ENTRIES // 256, MOST_BYTES // 256
    if len(entries) <= most and sum(status.st_size for _, status in entries) <= room:
        return
    room = room * 3 // 4
    newest = sorted(entries, key=lambda e: e[1].st_mtime, reverse=True)
    for k, (path, status) in enumerate(newest):
        room -= status.st_size
        if k and (k >= most * 3 // 4 or room < 0):
            os.unlink(path)


# --- carrying entries to another machine -------------------------------------------------------------------------------------------
def carried() -> bytes:
    """Every entry that this process read or wrote, as bytes for ``unpack``; entries that are gone are left out."""
    folder, found = directory(), {}
    for kind, name in sorted(touched):
        try:
            with open(os.path.join(folder, kind, name), "rb") as file:
                found[kind, name] = file.read()
        except OSError:
            logger.info("an entry is gone, and not carried: %s/%s", kind, name)
    return b"".join(_CARRIED.pack(len(path), len(entry)) + path + entry for path, entry in ((f"{kind}/{name}".encode(), e) for (kind, name), e in found.items()))


def unpack(data: bytes) -> list:
    """Stores what ``carried`` gave, and returns the names; entries that are there already stay.

    ValueError for bytes that are something else.  Entries made under another version or on another processor are stored and never found.
    """
    folder, names, at = directory(), [], 0
    while at < len(data):
        if at + _CARRIED.size > len(data):
            raise ValueError("these are not cache artifacts: the bytes end in the middle of an entry")
        name_length, length = _CARRIED.unpack_from(data, at)
        at += _CARRIED.size
        name, entry = data[at:at + name_length].decode(errors="replace"), data[at + name_length:at + name_length + length]
        at += name_length + length
        if _NAME.fullmatch(name) is None or len(entry) != length or _payload(entry) is None:
            raise ValueError("these are not cache artifacts: an entry is damaged")
        if folder is not None and not os.path.exists(os.path.join(folder, name)):
            _write(os.path.join(folder, name), entry)
        names.append(name)
    return names
