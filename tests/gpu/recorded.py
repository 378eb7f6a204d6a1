"""The stand-in for NVIDIA's library, loaded: what it was asked, and what it holds."""
from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import sys
import threading

import pytest

from rushlight._src.core.devices import Registry
from rushlight._src.devices.cpu.llvm.features import host
from rushlight._src.devices.triton import board as boards
from rushlight._src.devices.triton.binaries import Binary
from rushlight._src.devices.triton.driver import NVIDIA, Driver
from rushlight._src.devices.triton.provider import GPUs
from rushlight._src.devices.triton.runner import TAIL
from rushlight._src.devices.triton.vendor.libraries import Libraries

from . import stub

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))


@functools.cache
def image() -> bytes:
    return stub.image()


class Recorded:
    """A library of its own, whose file lies in ``folder``.  ``lazy``: work is done when it is waited for;
    ``run(name, programs, arguments)`` does a launch, else it is only noted."""

    def __init__(self, folder, devices=2, lazy=False, run=None, limit=1 << 34):
        path = folder / "libcuda-stand-in.so.1"
        with open(path, "xb") as file:  # never over one that a process has mapped: it would read the new one's bytes
            file.write(image())
        self.library = ctypes.CDLL(str(path))
        self.library.stub_state.restype = ctypes.POINTER(ctypes.c_int64)
        self.state = self.library.stub_state()
        self.state[stub.DEVICES], self.state[stub.LIMIT], self.state[stub.LAZY] = devices, limit, int(lazy)
        self.failure, self.kept, self.turns = None, None, threading.Lock()
        if run is not None:
            self.kept = CALLBACK(functools.partial(self.launched, run))
            self.state[stub.CALLBACK] = ctypes.cast(self.kept, ctypes.c_void_p).value

    def launched(self, run, name, programs, count, arguments):
        try:
            with self.turns:  # Triton's interpreter is not for several threads
                run(name.decode(), programs, arguments[:count])
        except BaseException as reason:  # noqa: BLE001 - it cannot cross the library
            self.failure = reason

    def __getitem__(self, word: int) -> int:
        return self.state[word]

    def asked(self, name: str) -> int:
        """How often an entry was called."""
        return self.state[stub.COUNTS + stub.NAMES.index(name)]

    @contextlib.contextmanager
    def failing(self, name: str, status: int):
        """A block in which an entry does nothing and gives this status."""
        self.state[stub.FAULT], self.state[stub.STATUS] = 1 + stub.NAMES.index(name), status
        try:
            yield
        finally:
            self.state[stub.FAULT] = 0

    def clear(self):
        """Forgets what was noted."""
        self.state[stub.NOTED] = 0

    def notes(self, *names) -> list:
        """(entry, stream, three numbers, the graph that it went into) of what was noted, of all or of some entries."""
        count = self.state[stub.NOTED]
        assert count <= stub.ROOM, "more was noted than is kept"
        rows = (ctypes.c_int64 * (stub.NOTE * count)).from_address(self.state[stub.JOURNAL]) if count else ()
        found = [(stub.NAMES[rows[k]], *rows[k + 1:k + stub.NOTE]) for k in range(0, stub.NOTE * count, stub.NOTE)]
        return [row for row in found if not names or row[0] in names]

    def counts(self) -> collections.Counter:
        return collections.Counter(row[0] for row in self.notes())


class Named:
    """Machine code that is a name; ``run`` has Triton's interpreter do what it stands for."""

    def __init__(self):
        self.known = {}

    def binary(self, module, variant, architecture):
        name = f"{module.name} {variant}"
        self.known[name] = module, variant
        count = len(module.signature(False)) - len(module.constants(variant.block)) + TAIL
        return Binary(b"STUB" + count.to_bytes(4, "little") + name.encode() + b"\0", module.name, 0,
                      32 * module.warps_of(variant.block))

    def run(self, name, programs, arguments):
        from .interpreter import launched

        module, variant = self.known[name]
        assert not any(arguments[-TAIL:]), "memory that no kernel asked for"
        launched(module, programs, variant.block, list(arguments[:-TAIL]), variant.wide)


def provided(monkeypatch, folder, computes=True, libraries=None, beside=None, **given):
    """(the provider "cuda" over a library of its own, the library).  ``libraries``: the vendor's by name, none else;
    ``beside``: by the name of a kernel that is not Triton's, what computes it from its arguments."""
    if sys.platform != "linux" or not host().is_x86:
        pytest.skip("the stand-in for a driver's library is a shared object for Linux on x86-64")
    names, beside = Named(), beside or {}

    def run(name, programs, arguments):
        beside[name](arguments) if name in beside else names.run(name, programs, arguments)

    library = Recorded(folder, run=run if computes else None, **given)
    library.names = names
    monkeypatch.setattr(boards, "binary", names.binary)
    made = GPUs(Driver(NVIDIA, library.library), libraries=Libraries("cuda", libraries or {}))
    Registry.enter("cuda", made)
    return made, library
