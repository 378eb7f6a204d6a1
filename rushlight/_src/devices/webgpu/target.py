"""WebGPU as the compiler's target: kernels in WGSL."""

from __future__ import annotations

from ...compiler.kernel import Kernel
from ...compiler.launch import encode
from ...compiler.target import Target
from ...compiler.tile import arrange, split
from ..cpu.code import Code
from .claims import claimed
from ..shared.host import HostStep
from ..shared.products import Epilogue, Prologue
from ..shared.writer import untiled
from .step import Module, Modules, ShaderKernel


class Shaders(Target):
    """Threads and workgroups.  ``features``: "i64" and "f64" where the device computes in these; ``bindings``: how many
    buffers a shader has; ``kind``: the type of device."""

    attends = False

    def __init__(self, features=frozenset(("i64", "f64")), bindings=8, kind="webgpu"):
        self.features, self.bindings, self.kind = frozenset(features), bindings, kind
        self.claims = claimed(self.features, bindings)

    def parts(self, kernel: Kernel, scratch) -> list[Kernel]:
        return [untiled(part) for part in split(arrange(kernel), scratch)]

    def step(self, kernel: Kernel, scalars: dict):
        return ShaderKernel(kernel, scalars, self.features, self.bindings)

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
        return ("wgsl", *Modules.made[kernel]) if kernel > 0 else None

    def load(self, reference):
        return Modules.number(Module(*reference[1:]))

    def fingerprint(self) -> str:
        return f"wgsl {' '.join(sorted(self.features))} {self.bindings}"
