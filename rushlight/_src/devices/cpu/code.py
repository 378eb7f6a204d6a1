"""Code: a program as the array of integers that ``program_run`` walks."""
from __future__ import annotations

import ctypes
import weakref

from ...core.native.memory import set_program_runner
from ...compiler.launch import decode
from .llvm import pool

set_program_runner(pool.addresses()["program_run"])


class Code:
    """Native code with what it needs to stay alive.  ``outputs``: Metas of what it writes into fresh memory;
    ``labels``: what each step does, for people; ``names``: those of its inputs, and of the random stream's place;
    ``callbacks``: the arguments of ``reference.callback`` that made the kernel at an address; ``tables``: the arrays of
    which the words at some positions are addresses; ``inside``, ``reused``: outputs that may lie in other memory
    (``Layout``); ``device``: the type of those that run it; ``packings``: the operands that its launches pack, each
    (number of the launch, value that it packs, which tensor argument that is, bytes, value and offset where the packed
    form lies, places of the words that name it elsewhere)."""

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
        """The records that the words stand for."""
        return list(decode(self.block))

    def written(self, name: str) -> str:
        """The program as the text of a Python function, for people."""
        from .host import written
        return written(self, name)
