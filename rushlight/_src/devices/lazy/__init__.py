"""The device ``lazy`` of programs written for PyTorch's LazyTensor: memory of the host, behind a device's interface.

PyTorch collects calls on lazy tensors until ``torch._lazy.mark_step()``, and compiles what was collected.  When a call
runs cannot be observed in its results: here each call runs its compiled program at once, so that a step has nothing
left to do.
"""
from __future__ import annotations

from collections import Counter

from ...core.devices import device
from ...core.native import Storage, allocate
from ...core.native.memory import copy_bytes, run_program_nogil
from ...core.random import Generator
from ..base import Properties, Provider


class Lazy(Provider):
    """One device, whose programs are those of the CPU.  ``counters``: how many programs and copies it was given."""

    type, is_accelerator = "lazy", False

    def __init__(self):
        self.counters, self.stream = Counter(), None

    def count(self) -> int:
        return 1

    def properties(self, index) -> Properties:
        return Properties("lazy")

    def storage(self, index, nbytes: int) -> Storage:
        return allocate(nbytes)

    def upload(self, index, target, source, nbytes, non_blocking):
        self.counters["TransferToDevice"] += 1
        copy_bytes(target, source, nbytes)

    def download(self, index, target, source, nbytes, non_blocking):
        self.counters["TransferFromDevice"] += 1
        copy_bytes(target, source, nbytes)

    def copy(self, index, target, source, nbytes):
        copy_bytes(target, source, nbytes)

    def run(self, index, code, values):
        self.counters["ExecuteProgram"] += 1
        run_program_nogil(code, values)

    def generator(self, index) -> Generator:
        if self.stream is None:
            self.stream = Generator(device(self.type, index))
        return self.stream

    def fallback(self, operator):
        self.counters[f"Fallback:{operator}"] += 1


provider = Lazy()
