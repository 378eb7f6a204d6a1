"""Targets of the compiler whose kernels are source text, which a device's own compiler compiles."""

from __future__ import annotations

from typing import NamedTuple

from ...compiler.kernel import Kernel
from ...compiler.launch import encode
from ...compiler.program import CompiledKernel
from ...compiler.target import Target
from ...compiler.tile import arrange, split
from ...core.undefined import Level
from ..cpu.code import Code
from .host import HostStep
from .products import Epilogue, Prologue
from .writer import scattered, untiled


class Modules:
    """Modules by number: what a launch names as its kernel."""

    def __init__(self):
        self.made, self.numbers = [None], {}

    def number(self, module: NamedTuple) -> int:
        """The number of a module; equal ones have one."""
        found = self.numbers.get(module)
        if found is None:
            found = self.numbers[module] = len(self.made)
            self.made.append(module)
        return found


class TextKernel(CompiledKernel):
    """A kernel whose launches take buffers, scalars, sizes and the error flag, in this order."""

    def slots(self, number_of, *_) -> list:
        found = ([(number_of(buffer), 0) for buffer in self.buffers] + self.scalars
                 + [(-1, value) for value in self.parameters])
        return found + [(number_of(None), 0)] if self.kernel.flag else found


class TextTarget(Target):
    """``kind``: the type of device; ``claims``: templates by primitive; ``language``, ``modules`` and ``module``: what
    kernels are written in, where they are kept, and the class of one."""

    language: str
    modules: Modules
    module: type

    def __init__(self, kind: str, claims: dict):
        self.kind, self.claims = kind, claims

    def parts(self, kernel: Kernel, scratch) -> list[Kernel]:
        made = [untiled(part) for part in split(arrange(kernel), scratch)]
        return made if Level.now else [scattered(part, self.updates) for part in made]  # the order of sums is any

    def updates(self, store) -> bool:
        """Whether several threads may do this update of memory at the same time."""
        return False

    def claim(self, node):
        found = self.claims.get(node.op)
        return found if found is not None and found.suits(node) else None

    def declines_attention(self, query, value):
        return f"the device {self.kind}, which has no kernel of attention"

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
        return (self.language, *self.modules.made[kernel]) if kernel > 0 else None

    def load(self, reference):
        return self.modules.number(self.module(*reference[1:]))
