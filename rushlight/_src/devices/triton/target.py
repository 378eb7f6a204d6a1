"""GPUs as the compiler's target: kernels in Triton."""

from __future__ import annotations

from ...compiler.kernel import Kernel
from ...compiler.launch import encode
from ...compiler.target import Target
from ...compiler.tile import arrange, split
from ..cpu.code import Code
from ..shared.host import HostStep
from ..shared.writer import untiled
from .step import Module, Modules, TritonKernel


class Blocks(Target):
    """Programs that have a block of numbers at a time.  ``kind``: the type of device; ``architecture``: what Triton
    compiles for, as text."""

    attends = False

    def __init__(self, kind="cuda", architecture=""):
        self.kind, self.architecture = kind, architecture

    def parts(self, kernel: Kernel, scratch) -> list[Kernel]:
        return [untiled(part) for part in split(arrange(kernel), scratch)]

    def step(self, kernel: Kernel, scalars: dict):
        return TritonKernel(kernel, scalars)

    def fallback(self, graph, inputs, outputs):
        step = HostStep(graph, inputs, outputs)
        return step.number, step

    def code(self, launches, outputs, **fields):
        return Code(encode(launches), outputs, device=self.kind, **fields)

    def restored(self, words, *facts):
        return Code(words, *facts, device=self.kind)

    def reference(self, kernel: int):
        return ("triton", *Modules.made[kernel]) if kernel > 0 else None

    def load(self, reference):
        return Modules.number(Module(*reference[1:]))

    def fingerprint(self) -> str:
        return f"triton {self.architecture}"
