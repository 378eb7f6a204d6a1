"""WebGPU as the compiler's target: kernels in WGSL."""

from __future__ import annotations

from ...compiler.kernel import Kernel
from ...compiler.target import Target
from ...compiler.tile import arrange, split
from .step import ShaderStep


class Shaders(Target):
    """Threads and workgroups.  ``features``: "i64" and "f64" where the device computes in these."""

    def __init__(self, features=frozenset(("i64", "f64"))):
        self.features = frozenset(features)

    def parts(self, kernel: Kernel, scratch) -> list[Kernel]:
        return [untiled(part) for part in split(arrange(kernel), scratch)]

    def step(self, kernel: Kernel, scalars: dict):
        return ShaderStep(kernel, scalars, self.features)

    def fingerprint(self) -> str:
        return f"wgsl {' '.join(sorted(self.features))}"


def untiled(kernel: Kernel) -> Kernel:
    """Tiles are for vectors; threads take their axis as one of their own."""
    if kernel.across is None:
        return kernel
    return Kernel((*kernel.outer, kernel.across), kernel.lane, kernel.stages, kernel.serial, kernel.flag)
