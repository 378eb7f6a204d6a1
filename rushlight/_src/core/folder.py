"""A directory of this user alone in which every file is signed: data that another user may have written is never read.

A directory that another user owns or may write to (by its mode, also through a group with other members) is rejected,
and so is such a file in it.
Files begin with an HMAC-SHA256 over their name and content, keyed by ``secret``, a file of the directory that only this
user may read. A symbolic link to the directory is followed once, when it is opened, and its target must pass; links in
place of files are rejected.
"""
import contextlib
import errno
import hmac
import logging
import io
import os
import stat
import time

from .platform import here

logger = logging.getLogger("rushlight.cache")

SECRET = "secret"
LENGTH = 32  # of the secret, and of a file's signature
PATIENCE = 1.0  # seconds in which another process may finish writing a secret where files cannot be linked
FRESH = 3600  # seconds in which a file counts as used lately: no need to say so again
BLOCK = 1 << 12  # bytes that file systems allocate at once
TEMPORARY = "tmp"  # prefix of the names of files that are being written
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_READ = os.O_RDONLY | _SAFE
SHARE = os.O_RDWR | os.O_CREAT | os.O_APPEND | _SAFE  # for a file to which several processes of this user append
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class Refused(OSError):
    """A directory or file that is not this user's alone."""


def check(path, status, forbidden=0o022, handle=None):
    """Raise Refused for a file that another user owns, or that has one of the ``forbidden`` permissions, except for
    those of a group whose only member is this user. ``handle``: the file's descriptor, if it is open."""
    if not here.owns(status):
        raise Refused(errno.EPERM, f"user {status.st_uid} owns it, not {here.user()}", path)
    if here.others_may(status, forbidden, path if handle is None else handle):
        deed, remedy = ("write to", "go-w") if forbidden == 0o022 else ("use", "go-rwx")
        raise Refused(errno.EPERM, f"its permissions {stat.S_IMODE(status.st_mode):o} let others {deed} it; "
                      f"chmod {remedy} {path} takes that from them", path)


def make(path):
    """Create a directory and its missing parents, each for this user alone whatever the umask."""
    missing = []
    while not os.path.isdir(path) and path != os.path.dirname(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            continue
        os.chmod(folder, 0o700)


def open_own(path, flags=_READ, forbidden=0o022) -> int:
    """Return the descriptor of a file that is this user's, as ``open_with_status`` does."""
    return open_with_status(path, flags, forbidden)[0]


def open_with_status(path, flags=_READ, forbidden=0o022) -> tuple:
    """Return the descriptor and the ``stat_result`` of a file that is this user's. Raise Refused for a link, for
    anything but a file, and for a file that ``check`` rejects."""
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise Refused(errno.EPERM, "it is a symbolic link", path) from None
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(errno.EPERM, "it is no file", path)
        check(path, status, forbidden, handle)
    except BaseException:
        os.close(handle)
        raise
    return handle, status


def read(path, forbidden=0o022) -> bytes:
    """Return a file's bytes.  Raise Refused as ``open_with_status`` does."""
    handle, status = open_with_status(path, forbidden=forbidden)
    try:
        if status.st_mtime < time.time() - FRESH and os.utime in os.supports_fd:
            with contextlib.suppress(OSError):  # one that may only be read
                os.utime(handle)
        return os.read(handle, status.st_size)
    finally:
        os.close(handle)


def create(path, *parts):
    """Writes a new file that only this user may read."""
    handle = os.open(path, _CREATE, 0o600)
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(handle, 0o600)  # the umask may have taken more
        # os.fdopen imports, which cannot be done while Python ends, when no builtin is called open either
        with io.open(handle, "wb") as file:
            file.writelines(parts)
    except BaseException:
        os.unlink(path)
        raise


def taken(size: int) -> int:
    """Return the bytes on disk of a file of ``size`` bytes."""
    return max(1, -(-size // BLOCK)) * BLOCK


def entries(path):
    """The files two levels below a directory: os.DirEntry each. Entries removed by another process meanwhile are
    skipped."""
    for depth in range(2):
        path = [entry.path for folder in (path if depth else [path]) for entry in listed(folder)
                if entry.is_dir(follow_symlinks=False)]
    return (entry for folder in path for entry in listed(folder) if entry.is_file(follow_symlinks=False))


def listed(path) -> list:
    try:
        with os.scandir(path) as found:
            return list(found)
    except OSError:
        return []


class Folder:
    """The directory at a path, created if missing. Raises OSError if that is impossible, Refused if another user has
    access."""

    def __init__(self, path):
        self.path = os.path.realpath(path)
        self.open()

    def open(self):
        """Create the directory and its secret if they are missing."""
        make(self.path)
        check(self.path, os.stat(self.path))
        self.secret = self.agreed()

    # --- the secret ---------------------------------------------------------------------------------------------------
    def agreed(self) -> bytes:
        """The secret that all processes of this user have, made by the first of them."""
        path = os.path.join(self.path, SECRET)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                found = read(path, 0o077)
                if len(found) == LENGTH:
                    self.place = os.stat(path).st_ino
                    return found
                if time.monotonic() < end:  # its writer is at it
                    time.sleep(0.01)
                    continue
                reason = f"{len(found)} bytes instead of {LENGTH}"
            except FileNotFoundError:
                self.offer(path)
                continue
            except Refused as refusal:
                reason = refusal.strerror
            logger.warning("%s is replaced, and what it signed is made again: %s", path, reason)
            self.offer(path, replace=True)
            end = time.monotonic() + PATIENCE

    def offer(self, path, replace=False):
        """Puts a new secret there; without ``replace`` one that another process put there first stays."""
        temporary = self.temporary(self.path)
        create(temporary, os.urandom(LENGTH))
        try:
            if replace:
                return os.replace(temporary, path)
            try:
                os.link(temporary, path)
            except FileExistsError:
                pass
            except (OSError, AttributeError, NotImplementedError):  # a file system without links
                try:
                    create(path, os.urandom(LENGTH))
                except FileExistsError:
                    pass
        finally:
            if os.path.lexists(temporary):
                os.unlink(temporary)

    def current(self) -> bool:
        """True if the directory and its secret still exist."""
        try:
            return os.stat(os.path.join(self.path, SECRET)).st_ino == self.place
        except OSError:
            return False

    # --- files --------------------------------------------------------------------------------------------------------
    @staticmethod
    def temporary(folder) -> str:
        return os.path.join(folder, f"{TEMPORARY}{os.urandom(8).hex()}")

    def signature(self, name, content) -> bytes:
        """A signature that proves that a process of this user wrote this content under this name."""
        found = hmac.new(self.secret, name.encode() + b"\0", "sha256")
        found.update(content)
        return found.digest()

    def get(self, name) -> bytes:
        """The content of a file, by its path within the directory. Raises OSError if there is none, Refused for one
        with a wrong signature."""
        path = os.path.join(self.path, name)
        whole = read(path)
        content = memoryview(whole)[LENGTH:]
        if not hmac.compare_digest(whole[:LENGTH], self.signature(name, content)):
            raise Refused(errno.EBADMSG, "it is damaged, or was not signed with this directory's secret", path)
        return bytes(content)

    def put(self, name, content):
        """Writes a file; others see all of it or nothing.  OSError where that is impossible."""
        path = os.path.join(self.path, name)
        make(os.path.dirname(path))
        temporary = self.temporary(os.path.dirname(path))
        create(temporary, self.signature(name, content), content)
        try:
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    def trim(self, most: int):
        """If the files take more than ``most`` bytes, remove the least recently used ones down to three quarters of
        that, and incomplete ones. Other processes may do the same meanwhile, and a file that was rewritten since it was
        inspected stays."""
        found, old = [], time.time() - FRESH
        for entry in entries(self.path):
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if not entry.name.startswith(TEMPORARY):
                    found.append((status.st_mtime_ns, taken(status.st_size), entry.path))
                elif status.st_mtime < old:
                    os.unlink(entry.path)
        excess = sum(size for _, size, _ in found)
        if excess <= most:
            return
        excess -= most * 3 // 4
        for used, size, path in sorted(found):
            if excess <= 0:
                break
            with contextlib.suppress(OSError):
                if os.stat(path, follow_symlinks=False).st_mtime_ns == used:
                    os.unlink(path)
            excess -= size
