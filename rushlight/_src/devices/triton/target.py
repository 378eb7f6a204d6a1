"""GPUs as the compiler's target: kernels in Triton."""

from __future__ import annotations

from ...compiler.kernel import Kernel
from ..shared.target import TextTarget
from .claims import claimed
from .step import Module, TritonKernel, modules
from .templates.attention import Attentions
from .templates.products import Templates


class Blocks(TextTarget):
    """Programs that have a block of numbers at a time.  ``kind``: the type of device; ``architecture``: what Triton
    compiles for, as text."""

    language, modules, module = "triton", modules, Module

    def __init__(self, kind="cuda", architecture=""):
        self.architecture, self.attentions = architecture, Attentions(kind, architecture)
        super().__init__(kind, claimed(Templates(kind, architecture), self.attentions))

    def step(self, kernel: Kernel, scalars: dict):
        return TritonKernel(kernel, scalars)

    def declines_attention(self, query, value):
        return self.attentions.refusal(query.dtype.name, query.shape[-1], value.shape[-1])

    def fingerprint(self) -> str:
        return f"triton {self.architecture}"
