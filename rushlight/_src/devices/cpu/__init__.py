"""The CPU device.  It names the native code (``core/native``) that the hot path calls directly, not through it."""
from __future__ import annotations

import os
from importlib import import_module

from ...core.copies import drop_copies
from ...core.devices import device
from ...core.exchange import view_memory
from ...core.llvm.planning import planned_for, planning
from ...core.native import Storage, allocate, blocks
from ...core.native.memory import copy_bytes, run_program_nogil
from ...core.platform import here
from ...core.precisions import HOST
from ...core.random import default_generator
from ..base import Properties, Provider


class Processor(Provider):
    """The host's memory and its threads: work is done when a call returns."""

    type, on_host = "cpu", True
    dlpack, autocast = 1, HOST
    compiler = None  # the Target, once it is there: nothing can be imported any more while Python ends
    planning, planned_for = planning, staticmethod(planned_for)

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

    def target(self):
        if planning.others and (planned := planning.others[0]):
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
