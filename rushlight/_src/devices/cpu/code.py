"""Code: a program as the array of integers that ``program_run`` walks."""
from __future__ import annotations

import ctypes
import weakref

from ...core.native.memory import set_program_runner
from ...compiler.launch import decode
from .llvm import pool

set_program_runner(pool.addresses()["program_run"])


class Code:
    """An encoded program with what it needs to stay alive.  ``outputs``: Metas of freshly allocated outputs;
    ``labels``: descriptions of the steps; ``names``: those of its inputs, and of the RNG offset; ``callbacks``: the
    arguments of ``reference.callback`` that made the kernel at an address; ``tables``: the arrays whose addresses are
    the int64 words at some positions; ``inside``, ``reused``: outputs that may share other memory (``Layout``);
    ``device``: the device type that runs it; ``packings``: the operands that its launches pack, each (index of the
    launch, value that it packs, index of the tensor argument, bytes, value and offset of the packed form, positions of
    the other words that refer to it)."""

    known: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # by address: those that live

    def __init__(self, words, outputs, temporaries=(), keep=(), long=False, labels=(), names=((), ()), callbacks=None,
                 tables=None, packings=(), layout=None, device="cpu"):
        self.inside, self.reused = (layout.inside, layout.reused) if layout else ((), ())
        self.labels, self.names, self.callbacks, self.tables = labels, names, callbacks or {}, tables or {}
        self.device, self.packings = device, packings
        self.block = (ctypes.c_int64 * len(words))(*words)
        self.address = ctypes.addressof(self.block)
        self.known[self.address] = self
        self.outputs, self.temporaries, self.keep, self.long = list(outputs), list(temporaries), keep, long

    @property
    def launches(self) -> list:
        """The launches that the words encode."""
        return list(decode(self.block))

    def written(self, name: str) -> str:
        """Return the program as the source of a Python function, for people."""
        from .host import written
        return written(self, name)
