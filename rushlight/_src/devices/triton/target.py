"""GPUs as the compiler's target: kernels in Triton."""

from __future__ import annotations

from ...compiler.kernel import Kernel
from ..shared.target import TextTarget
from .claims import claimed
from .step import Module, TritonKernel, modules


class Blocks(TextTarget):
    """Programs that have a block of numbers at a time.  ``kind``: the type of device; ``architecture``: what Triton
    compiles for, as text."""

    language, modules, module = "triton", modules, Module

    def __init__(self, kind="cuda", architecture=""):
        super().__init__(kind, claimed())
        self.architecture = architecture

    def step(self, kernel: Kernel, scalars: dict):
        return TritonKernel(kernel, scalars)

    def fingerprint(self) -> str:
        return f"triton {self.architecture}"
