"""GPUs as the compiler's target: kernels in Triton."""

from __future__ import annotations

from ...compiler.kernel import Kernel
from ...compiler.launch import encode
from ...compiler.target import Target
from ...compiler.tile import arrange, split
from ..cpu.code import Code
from ..shared.host import HostStep
from ..shared.products import Epilogue, Prologue
from ..shared.writer import untiled
from .claims import claimed
from .step import Module, Modules, TritonKernel


class Blocks(Target):
    """Programs that have a block of numbers at a time.  ``kind``: the type of device; ``architecture``: what Triton
    compiles for, as text."""

    attends = False

    def __init__(self, kind="cuda", architecture=""):
        self.kind, self.architecture, self.claims = kind, architecture, claimed()

    def parts(self, kernel: Kernel, scratch) -> list[Kernel]:
        return [untiled(part) for part in split(arrange(kernel), scratch)]

    def step(self, kernel: Kernel, scalars: dict):
        return TritonKernel(kernel, scalars)

    def claim(self, node):
        found = self.claims.get(node.op)
        return found if found is not None and found.suits(node) else None

    def epilogue(self, value, operands, out, further, sums):
        return Epilogue(value, operands, out[1], further, sums)

    def prologue(self, value, leaves):
        return Prologue(value, leaves)

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
