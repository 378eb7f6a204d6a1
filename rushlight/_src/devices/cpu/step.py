"""Kernels as machine code of the CPU, and the division of their work."""
from __future__ import annotations

import hashlib
import logging
from dataclasses import replace

from ...compiler import math
from ...core import expr
from ...core.cached import cached_property
from ...core.nodes import INFINITY
from ...core.meta import product
from ...compiler.kernel import Kernel, KernelStage, StoreTo, walk
from ...compiler.program import CompiledKernel
from .llvm import jit
from .llvm.emit import emit
from .llvm.lanes import lanes_of, parts, unrolling
from .llvm.features import targeted

kernels_log = logging.getLogger("rushlight.kernels")
CHUNK_BYTES = 1 << 16   # least bytes of work for a chunk of its own
BLOCK = 4096            # lanes of a work unit if outer indices are few
TILE_ROWS = 256         # lanes of a work unit if tiles are transposed: as many pages stay in the TLB


def at_most(extent):
    """The extent of a loop that grows with another one (a triangle): its greatest, or a guess."""
    if isinstance(extent, int) or not any(x.op == "index" for x in extent.free):
        return extent
    return extent.high if extent.high < INFINITY else BLOCK


def with_moderate_angles(kernel: Kernel) -> Kernel:
    """The kernel without the code for large arguments of sines and cosines wherever these are bounded (normal
    variables): it is most of the kernel, and never runs.  Values are the same."""
    found = {e: simpler for stage in kernel.stages for root in stage.exprs() for op in ("sin", "cos")
             for e in walk(root, op) if (simpler := math.without_large(e)) is not None}
    if not found:
        return kernel
    memo: dict = {}

    def change(e):
        return expr.substitute(e, found, memo)

    return replace(kernel, stages=[KernelStage(s.loops, [r.mapped(change) for r in s.reductions],
                                               [StoreTo(t.buffer, t.at, change(t.value), t.combine) for t in s.stores])
                                   for s in kernel.stages])


class NativeKernel(CompiledKernel):
    """A scheduled kernel that LLVM compiles."""

    def __init__(self, arranged: Kernel, scalars: dict):
        super().__init__(arranged, scalars)
        dtypes = " ".join(e.dtype.name for s in self.kernel.stages for e in parts(s.exprs()) if e.op == "number")
        text = f"{self.kernel}\n{len(self.parameters)} {dtypes}"  # scalars print without their dtype
        name = "k" + hashlib.sha256(text.encode()).hexdigest()[:12]
        kernels_log.debug("%s: %s\n%s", name, ", ".join(f"p{k} = {v}" for k, v in enumerate(self.parameters)),
                          self.kernel)
        kernel, count = self.kernel, len(self.parameters)
        # not a function of self, which holds the compiled code: that may hold this function
        self.address = jit.build(text, lambda: emit(kernel, count, name), [name])[name]

    @cached_property
    def width(self) -> int:
        """Elements along the lanes that are computed at a time."""
        return self.tile * unrolling(self.kernel)

    @cached_property
    def tile(self) -> int:
        """Elements of a vector."""
        return lanes_of(self.kernel, targeted())

    @cached_property
    def itemsize(self) -> int:
        """Bytes that one element of all buffers takes."""
        return sum(b.dtype.itemsize for b in self.buffers)

    def extents(self) -> tuple:
        """Arguments of ``geometry``: all outer indices, inner ones of a stage, lanes and tiled lanes (None if there are
        none); ints or Exprs."""
        return product(self.sizes), product(map(at_most, self.inner)), self.lane_size, self.across_size

    def geometry(self, rows, inner, lanes=None, across=None) -> tuple:
        """(extent, grain, lanes of a unit, units per outer index) for these sizes."""
        extent, unit, block, blocks = rows, inner, 0, 0
        if lanes is not None:
            block, blocks = self.split(rows, lanes, inner)
            extent, unit = rows * blocks, block * inner
            if across is not None:
                extent, unit = extent * -(-across // self.tile), unit * self.tile
        if self.kernel.serial:
            return extent, max(1, extent), block, blocks
        return extent, max(1, -(-CHUNK_BYTES // (max(1, unit) * self.itemsize))), block, blocks

    def split(self, rows, lanes, inner):
        """(lanes of a work unit, units per outer index): full rows if there are many, else cache-sized blocks."""
        width = self.width
        if self.across_size is not None:
            return TILE_ROWS, max(1, -(-lanes // TILE_ROWS))
        block = BLOCK if inner < 8 else width
        block = -(-block // width) * width
        if lanes <= block or rows >= 64 and inner < 8 and lanes <= 1 << 16:
            return max(1, lanes), 1
        return block, -(-lanes // block)
