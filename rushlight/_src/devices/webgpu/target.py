"""WebGPU as the compiler's target: kernels in WGSL."""

from __future__ import annotations

from ...compiler.kernel import Kernel
from ..shared.target import TextTarget
from .claims import claimed
from .step import Module, ShaderKernel, modules
from .templates.attention import Attentions


class Shaders(TextTarget):
    """Threads and workgroups.  ``features``: as kernels know them (``board.FEATURES``); ``bindings``: how many buffers
    a shader has; ``memory``: bytes that a workgroup shares; ``kind``: the type of device."""

    language, modules, module = "wgsl", modules, Module

    def __init__(self, features=frozenset(("i64", "f64")), bindings=8, kind="webgpu", memory=16384):
        self.features, self.bindings = frozenset(features), bindings
        self.attentions = Attentions(self.features, memory, bindings)
        super().__init__(kind, claimed(self.features, bindings, self.attentions))

    def step(self, kernel: Kernel, scalars: dict):
        return ShaderKernel(kernel, scalars, self.features, self.bindings)

    def updates(self, store):
        return store.buffer.dtype.name not in ("int64", "float64")  # there are atomic words of 32 bits

    def declines_attention(self, query, value):
        return self.attentions.refusal(query.dtype.name, query.shape[-1], value.shape[-1])

    def fingerprint(self) -> str:
        return f"wgsl {' '.join(sorted(self.features))} {self.bindings} {self.attentions.memory}"
