"""The CPU device.  It names the native code (``core/native``) that the hot path calls directly, not through it."""
from __future__ import annotations

import contextlib
import os
import threading
from importlib import import_module

from ...core.copies import drop_copies
from ...core.devices import device
from ...core.exchange import view_memory
from ...core.native import Storage, allocate, blocks
from ...core.native.memory import copy_bytes, run_program_nogil
from ...core.platform import here
from ...core.precisions import HOST
from ...core.random import default_generator
from ..base import Properties, Provider


class Planning(threading.local):
    """``others``: the (Target, Features) that a thread plans for in place of the CPU's; empty: for the CPU's."""

    others: tuple = ()


class Processor(Provider):
    """The host's memory and its threads: work is done when a call returns."""

    type, on_host = "cpu", True
    dlpack, autocast = 1, HOST
    compiler = None  # the Target, once it is there: nothing can be imported any more while Python ends
    planning = Planning()

    def count(self) -> int:
        return 1

    def properties(self, index) -> Properties:
        return Properties("cpu", here.bytes_of_memory(), os.cpu_count() or 1)

    def placed(self, where: device) -> device:
        return device(self.type)

    def storage(self, index, nbytes: int) -> Storage:
        return allocate(nbytes)

    def trim(self, index):
        drop_copies()
        blocks.trim()

    def upload(self, index, target, source, nbytes, non_blocking):
        copy_bytes(target, source, nbytes)

    download = upload

    def copy(self, index, target, source, nbytes):
        copy_bytes(target, source, nbytes)

    def view(self, tensor):
        return view_memory(tensor, tensor.dtype.numpy)

    @contextlib.contextmanager
    def planned_for(self, target=None, features=None):
        """A context in which the thread plans programs on CPU tensors for another device's Target, or for a machine
        with these Features, which may be absent; None: for this one.  Operator calls are planned for this one."""
        planning = self.planning
        before, planning.others = planning.others, (target, features) if target or features else ()
        try:
            yield
        finally:
            planning.others = before

    def target(self):
        if self.planning.others and (planned := self.planning.others[0]):
            return planned
        if self.compiler is None:
            # LLVM's layer and templates, which only programs need
            self.compiler = import_module(f"{__name__}.target").target
        return self.compiler

    def run(self, index, code, values):
        run_program_nogil(code, values)

    def generator(self, index):
        return default_generator


provider = Processor()
