"""The vendor's libraries of a driver, opened at first use, and their handles on each device."""

from __future__ import annotations

import ctypes
import threading

from ....core.forking import guarded
from ....core.log import logger
from ....core.settings import settings
from .blas import Blas, Unsupported
from .dialects import DIALECTS
from .dnn import FILES, NEEDS, Dnn
from .finding import candidates, opened
from .graphs import DnnError
from .packs import DNN

log = logger("autotune")


class Libraries:
    """Those for the devices of a driver; ``vendor``: "cuda" or "hip".  ``given``: libraries by name ("blas", "dnn")
    that are there already, instead of those that are found."""

    def __init__(self, vendor: str, given: dict | None = None):
        self.vendor, self.given, self.made = vendor, given, {}
        self.lock = guarded("devices", threading.RLock())

    def library(self, name: str, files: tuple, needs: tuple = ()):
        """A library; None where there is none."""
        return self.given.get(name) if self.given is not None else opened(files, needs)

    def blas(self, board):
        """Return the BLAS library on a device; None if there is none."""
        dialect = DIALECTS[self.vendor]
        return self.on(board, dialect.name, lambda: self.library("blas", dialect.files),
                       lambda library: Blas(library, dialect, board))

    def dnn(self, board):
        """The library of attention and convolutions on a device; None where there is none."""
        if self.vendor != "cuda":
            return None
        return self.on(board, "cuDNN", lambda: self.library("dnn", FILES, NEEDS), lambda library: Dnn(library, board))

    def dnn_version(self) -> int:
        """The version of the library of attention and convolutions; 0 where there is none."""
        library = self.library("dnn", FILES, NEEDS) if self.vendor == "cuda" else None
        if library is None:
            return 0
        library.cudnnGetVersion.restype = ctypes.c_size_t
        return library.cudnnGetVersion()

    def on(self, board, name: str, find, make):
        """Return the object that a device has made from a library, once."""
        key = name, board.index
        with self.lock:
            if key not in self.made:
                library = find()
                try:
                    self.made[key] = make(library) if library is not None else None
                except (AttributeError, Unsupported, DnnError) as reason:  # too old, or not for this device
                    log.debug("%s is not used: %s", name, reason)
                    self.made[key] = None
                else:
                    log.debug("%s: %s", name, "there is none" if library is None else self.made[key].version)
            return self.made[key]

    def failed(self, board, status: int) -> str:
        """Return the message of a failed call."""
        if status >= DNN:
            return f"cuDNN refused a call: {self.dnn(board).handle.words(status - DNN)}"
        blas = self.blas(board)
        return f"{blas.dialect.name} refused a product: {blas.words(status)}"

    def fingerprint(self) -> str:
        """Return a string of all properties of these libraries that affect plans, without opening one: programs that
        call a library know its version."""
        files = (*DIALECTS[self.vendor].files, *FILES)
        there = sorted(self.given) if self.given is not None else [one for one in candidates(files) if "/" in one]
        return f"{settings.vendor} {there}"
