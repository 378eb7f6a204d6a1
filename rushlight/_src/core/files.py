"""Writing files whole: the old content stays until all of the new is written."""
from __future__ import annotations

import contextlib
import os
import stat

from .platform import here

STREAMS = "/dev/", "/proc/"  # paths to open files: they are written directly
MEMORY = "/dev/shm/"


@contextlib.contextmanager
def replaced(path):
    """A binary file to write, which replaces ``path`` when the block ends without an error.

    The new file has the mode of the old one, or what the umask gives; symbolic links stay and their target is replaced;
    an interrupted process leaves nothing behind if the file system supports unnamed files. Pipes and devices, files of
    other users or with several names, and files in directories that are not writable are written directly.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "file")
    >>> with replaced(path) as file:
    ...     file.write(b"new"), os.path.exists(path)
    (3, False)
    >>> open(path, "rb").read()
    b'new'
    """
    path = os.fsdecode(os.fspath(path))
    old = status(path)
    if direct(path, old):
        with open(path, "wb") as file:
            yield file
        return
    path = os.path.realpath(path)
    try:
        handle, name = unnamed(path)
    except PermissionError:
        if old is None:
            raise
        with open(path, "wb") as file:
            yield file
        return
    with os.fdopen(handle, "wb") as file:
        try:
            yield file
            file.flush()
            if old is not None:
                os.chmod(file.fileno() if os.chmod in os.supports_fd else name, stat.S_IMODE(old.st_mode))
            if name is None:
                name = given(file.fileno(), beside(path))
            file.close()
            os.replace(name, path)
        except BaseException:
            if name is not None and os.path.lexists(name):
                file.close()
                os.unlink(name)
            raise


def status(path):
    """The result of ``os.stat``, or None if the path does not exist."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def direct(path, old) -> bool:
    """True if a path is written directly, not replaced."""
    whole = os.path.abspath(path)
    if whole.startswith(STREAMS) and not whole.startswith(MEMORY):
        return True
    if old is None:
        return False
    return not stat.S_ISREG(old.st_mode) or old.st_nlink > 1 or not here.owns(old)


def beside(path) -> str:
    """A new name in the same directory."""
    return f"{path}.{os.urandom(6).hex()}.partial"


def given(handle, name) -> str:
    """The name that a file without one has now."""
    folder = os.open(os.path.dirname(name), os.O_RDONLY)
    try:
        # without a directory Python would link the link
        os.link(f"/proc/self/fd/{handle}", os.path.basename(name), dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)
    return name


def unnamed(path):
    """The descriptor of a new file in the directory of ``path``, and its name: None for one that has none yet, as on
    Linux."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        try:
            return os.open(os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY, 0o666), None
        except PermissionError:
            raise
        except OSError:  # a file system that has no such files
            pass
    name = beside(path)
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666), name
