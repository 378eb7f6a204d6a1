"""Read the content of an archive's entries into memory."""
from __future__ import annotations

import zipfile
import zlib

PIECE = 1 << 20  # bytes read at once, so that they are in the cache when they are summed and copied


def read_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, source, view: memoryview):
    """Read the content of an entry, which is open as ``source``, into memory; directly from the archive's file if it is
    not compressed.  EOFError if there is less, BadZipFile for another checksum than the entry's."""
    start = getattr(source, "_orig_compress_start", None)  # None: the file is not seekable
    if info.compress_type == zipfile.ZIP_STORED and start is not None and hasattr(archive.fp, "readinto"):
        with archive._lock:  # other threads may read other entries
            read_stored(archive.fp, start, view, info.CRC)
    else:
        fill(view, source.readinto)


def fill(view: memoryview, readinto, summed=lambda part: None):
    """Fill memory piece by piece by ``readinto``; ``summed`` is called with each piece.  EOFError if there is less."""
    at = 0
    while at < len(view):
        count = readinto(view[at:at + PIECE])
        if not count:
            raise EOFError(f"{at} bytes instead of {len(view)}")
        summed(view[at:at + count])
        at += count


def read_stored(file, start, view, crc):
    """Read the bytes of an uncompressed entry directly from a file into memory.  BadZipFile unless their checksum is
    ``crc``; None: it is not compared."""
    total = 0

    def add(part):
        nonlocal total
        total = zlib.crc32(part, total)

    file.seek(start)
    fill(view, file.readinto, (lambda part: None) if crc is None else add)
    if crc is not None and total != crc:
        raise zipfile.BadZipFile(f"the CRC-32 of its bytes is {total:08x}, not {crc:08x}")
