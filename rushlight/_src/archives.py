"""Write the archives of ``save``: uncompressed entries, each at a multiple of 64 bytes, as in PyTorch."""
from __future__ import annotations

import functools
import hashlib
import zipfile

from .file_options import saving

FORMAT = "1"
LEAD, PADDING = 30, b"FB"  # bytes of a local header before its name; the mark of a field that only fills


def can_tell(file) -> bool:
    """True if a file knows its position; objects that write elsewhere, over a network for example, may raise any
    error."""
    try:
        file.tell()
    except Exception:
        return False
    return True


class Stream:
    """A file that is only written, from beginning to end."""

    def __init__(self, file):
        self.write = file.write
        self.flush = getattr(file, "flush", lambda: None)


class Archive:
    """An archive being written to a file.  Equal entries give equal files: there are no timestamps in them.

    >>> import io
    >>> file = io.BytesIO()
    >>> with Archive(file, "model") as archive:
    ...     archive.write("data.pkl", b"N.")
    >>> zipfile.ZipFile(file).namelist()[0], file.getvalue()[64:66]
    ('model/data.pkl', b'N.')
    """

    def __init__(self, file, folder: str):
        self.file = file if can_tell(file) else Stream(file)
        self.zip, self.folder = zipfile.ZipFile(self.file, "w", zipfile.ZIP_STORED), folder
        self.alignment, self.compute_crc32 = saving.storage_alignment, saving.compute_crc32
        self.sums = hashlib.sha256()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.write("version", "3\n")
            self.write(".data/serialization_id", f"{int.from_bytes(self.sums.digest(), 'big') % 10**40:040d}")
            for info in self.zip.infolist():
                info.extra = b""  # the central directory needs no padding
        self.zip.close()
        if kind is None and hasattr(self.file, "flush"):
            self.file.flush()

    def write(self, name: str, content):
        """Write one more entry: a string, or bytes as any buffer."""
        content = content.encode() if isinstance(content, str) else content
        info = zipfile.ZipInfo(f"{self.folder}/{name}")
        info.file_size = memoryview(content).nbytes
        info.extra = self.padding(info)
        self.zip.writestr(info, content)
        if not self.compute_crc32:
            info.CRC = 0
        self.sums.update(f"{name} {info.file_size} {info.CRC};".encode())

    def padding(self, info) -> bytes:
        """Return the extra field that moves the content of an entry to a multiple of the alignment."""
        long = 20 if info.file_size * 1.05 > zipfile.ZIP64_LIMIT else 0  # a field that zipfile adds
        start = self.zip.fp.tell() + LEAD + len(info.filename.encode()) + long + 4
        count = -start % self.alignment
        return PADDING + count.to_bytes(2, "little") + b"Z" * count

    def begin(self, pickled: bytes):
        """Write the entries with which every archive begins."""
        self.write("data.pkl", pickled)
        self.write(".format_version", FORMAT)
        self.write(".storage_alignment", str(self.alignment))
        self.write("byteorder", "little")


def folder_of(path: str) -> str:
    """The top directory in the archive of a file: its name without extension, "archive" if the path is not ASCII.
    RuntimeError if nothing is left of it.

    >>> folder_of("a/model.tar.gz"), folder_of("plain")
    ('model.tar', 'plain')
    """
    name = path.rpartition("/")[2]
    stem = name.rpartition(".")[0] if "." in name else name
    if not stem:
        raise RuntimeError(f"invalid file name: {path}: it has nothing before its ending")
    return stem if path.isascii() else "archive"


class GlobalName:
    """A name that the pickle refers to without importing it."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self, *args):
        raise TypeError("a name in a file is not called while it is written")


global_name = functools.cache(GlobalName)  # one object for each name: a pickle has it once


class FileLike:
    """A file object for ``zipfile`` from one that may only have ``read``, ``seek`` and ``tell``."""

    def __init__(self, file):
        self.file = file

    def __getattr__(self, name):
        return getattr(self.file, name)

    def seekable(self):
        return True
