"""POSIX: the common part of Linux and macOS."""
from __future__ import annotations

import ctypes
import errno
import fcntl
import grp
import mmap
import os
import pwd
import resource
import socket
import stat
import struct
import tempfile
from multiprocessing import reduction

from .base import CACHE_LINE, Platform, Refused, Shared

PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
FAILED = ctypes.c_size_t(-1).value


def is_private_group(gid: int) -> bool:
    """True if this user is the only member of a group: the user's own one, on systems that give each user a group of
    the same name and a umask of 002."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
        return (user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
                and all(other.pw_uid == user.pw_uid for other in pwd.getpwall() if other.pw_gid == gid))
    except KeyError:  # a user or group without a name
        return False


class PosixShared(Shared):
    """A mapping of a file, by its descriptor. ``locks``: the struct layout in which the system reports locks."""

    def __init__(self, descriptor: int, nbytes: int, path=""):
        self.descriptor, self.path = descriptor, path
        super().__init__(mmap.mmap(descriptor, nbytes))

    def told(self):
        return PosixShared.given, (reduction.DupFd(self.descriptor), len(self.memory))

    @staticmethod
    def given(file, nbytes):
        return PosixShared(file.detach(), nbytes)

    def unlink(self):
        if self.path and not self.path.startswith("/proc/"):
            os.unlink(self.path)

    def claim(self, k):
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, k)

    def claimed(self, k):
        lock = struct.pack(self.form, *self.row(k))
        found = struct.unpack_from(self.form, fcntl.fcntl(self.descriptor, fcntl.F_GETLK, lock))
        return found[self.kind] != fcntl.F_UNLCK

    # struct flock of Linux: type, whence, start, length, process
    form, kind = "hhqqi4x", 0

    def row(self, k):
        return fcntl.F_WRLCK, os.SEEK_SET, k, 1, 0

    def close(self):
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self):
        if getattr(self, "descriptor", -1) >= 0:
            self.close()


class Posix(Platform):
    """A POSIX system without further support."""

    name = "posix"
    physical = "SC_PHYS_PAGES"
    sharing = PosixShared

    def __init__(self):
        self.library = library = ctypes.CDLL(None, use_errno=True)
        address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        for name, result, arguments in (
                ("aligned_alloc", address, (size, size)), ("free", None, (address,)),
                ("mmap", address, (address, size, number, number, number, ctypes.c_longlong)),
                ("munmap", number, (address, size)), ("mprotect", number, (address, size, number)),
                ("madvise", number, (address, size, number)),
                ("pthread_key_create", number, (address, address)),
                ("pthread_setspecific", number, (self.key, address))):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments

    key = ctypes.c_uint32  # of a value that each thread has

    def symbol(self, name):
        try:
            return ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value
        except AttributeError:
            raise RuntimeError(f"no symbol {name!r} in this process") from None

    def allocate(self, nbytes):
        return self.library.aligned_alloc(CACHE_LINE, nbytes) or 0

    def free(self, address):
        self.library.free(address)

    def mapped(self, nbytes, how=READ_WRITE, flags=PRIVATE, at=None):
        found = self.library.mmap(at, nbytes, how, flags, -1, 0)
        return 0 if found in (None, FAILED) else found

    def pages(self, nbytes):
        return self.mapped(nbytes)

    def unmap(self, address, nbytes):
        self.library.munmap(address, nbytes)

    def discard(self, address, nbytes):
        self.mapped(nbytes, flags=PRIVATE | self.fixed, at=address)  # replaces them by fresh pages

    fixed = 0x10  # MAP_FIXED

    def forbid(self, address, nbytes, allowed):
        if self.library.mprotect(address, nbytes, READ_WRITE if allowed else 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def room(self, nbytes):
        return self.mapped(nbytes, 0)

    def executable(self, address, nbytes):
        if self.library.mprotect(address, nbytes, mmap.PROT_READ | mmap.PROT_EXEC):
            raise Refused("this system refuses executable memory")

    def bytes_of_memory(self):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf(self.physical)

    def thread_key(self, place):
        if self.library.pthread_key_create(place, None):
            raise Refused("this process has no key left for what belongs to its threads")

    def thread_value(self, place, value):
        self.library.pthread_setspecific(self.key.from_address(place).value, value)

    def give_way(self):
        self.library.sched_yield()

    def user(self):
        return os.geteuid()

    def owns(self, status):
        return status.st_uid == os.geteuid()

    def others_may(self, status, forbidden, file):
        found = status.st_mode & forbidden
        return bool(found & ~stat.S_IWGRP or found and (self.has_more_entries(file)
                                                        or not is_private_group(status.st_gid)))

    def has_more_entries(self, file) -> bool:
        """True if an access control list may give users rights besides the mode, which then shows their mask as the
        rights of the group."""
        return False

    def machine(self):
        return f"{socket.gethostname()} {os.getuid()}"

    def shared(self, nbytes):
        descriptor, path = tempfile.mkstemp(prefix="rushlight")
        os.ftruncate(descriptor, nbytes)
        return self.sharing(descriptor, nbytes, path)

    def opened(self, path, nbytes):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not self.owns(status) or status.st_size != nbytes:
            os.close(descriptor)
            raise PermissionError(errno.EPERM, f"it is no file of {nbytes} bytes that this user owns", path)
        return self.sharing(descriptor, nbytes)

    def files_left(self, used):
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return most == resource.RLIM_INFINITY or used < most // 2

    @staticmethod
    def locked(file):
        fcntl.flock(file, fcntl.LOCK_EX)
