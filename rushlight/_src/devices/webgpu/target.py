"""WebGPU as the compiler's target: kernels in WGSL."""

from __future__ import annotations

from ...compiler.kernel import Kernel
from ..shared.target import TextTarget
from .claims import claimed
from .step import Module, ShaderKernel, modules


class Shaders(TextTarget):
    """Threads and workgroups.  ``features``: "i64" and "f64" where the device computes in these; ``bindings``: how many
    buffers a shader has; ``kind``: the type of device."""

    language, modules, module = "wgsl", modules, Module

    def __init__(self, features=frozenset(("i64", "f64")), bindings=8, kind="webgpu"):
        self.features, self.bindings = frozenset(features), bindings
        super().__init__(kind, claimed(self.features, bindings))

    def step(self, kernel: Kernel, scalars: dict):
        return ShaderKernel(kernel, scalars, self.features, self.bindings)

    def fingerprint(self) -> str:
        return f"wgsl {' '.join(sorted(self.features))} {self.bindings}"
