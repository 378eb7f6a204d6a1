"""Program: compiled kernels in order, to be bound to sizes."""
from __future__ import annotations

import functools
import hashlib
import logging
import struct
from dataclasses import dataclass

from ..core.expr import INFINITY, Expr, evaluate, extent_of
from ..core.meta import product
from .kernel import Buffer, Kernel, parametrise, replaceable
from .launch import Launch
from .llvm import jit
from .llvm.emit import emit, lanes_of, parts, unrolling
from .llvm.features import host

kernels_log = logging.getLogger("rushlight.kernels")
CHUNK_BYTES = 1 << 16   # work that is worth a chunk of its own
BLOCK = 4096            # lanes of one unit where outer indices are few
TILE_ROWS = 256         # lanes of one unit where tiles are transposed: as many pages stay in the translation cache


@dataclass
class Temporary:
    """Memory that lives while the program runs: ``size`` elements (an int or Expr)."""

    buffer: Buffer
    size: object


def float_bits(value: float) -> int:
    """The bits of a double, as a slot holds them."""
    return struct.unpack("<q", struct.pack("<d", value))[0]


def at_most(extent):
    """The extent of a loop that grows with another one (a triangle): its greatest, or a guess."""
    if isinstance(extent, int) or not any(x.op == "index" for x in extent.free):
        return extent
    return extent.high if extent.high < INFINITY else BLOCK


class Step:
    """An arranged kernel with its machine code's address and what fills its slots."""

    def __init__(self, arranged: Kernel, scalars: dict):
        self.kernel, self.parameters, self.buffers, names = parametrise(arranged)
        self.replaceable = replaceable(arranged)
        self.scalars = [(scalars[name], 0) if isinstance(name, str) else (-1, float_bits(name)) for name in names]
        self.sizes = [extent_of(i) for i in arranged.outer]
        self.across_size = extent_of(arranged.across) if arranged.across is not None else None
        self.lane_size = extent_of(arranged.lane) if arranged.lane is not None else None
        self.inner = [extent_of(i) for i in max((s.loops for s in arranged.stages), key=len)]
        dtypes = " ".join(e.dtype.name for s in self.kernel.stages for e in parts(s.exprs()) if e.op == "number")
        text = f"{self.kernel}\n{len(self.parameters)} {dtypes}"  # numbers print without their dtype
        name = "k" + hashlib.sha256(text.encode()).hexdigest()[:12]
        kernels_log.debug("%s: %s\n%s", name, ", ".join(f"p{k} = {v}" for k, v in enumerate(self.parameters)), self.kernel)
        made = jit.build(text, lambda: emit(self.kernel, len(self.parameters), name), [name])
        self.address = made[name]

    @functools.cached_property
    def width(self) -> int:
        """Elements along the lanes that are in flight."""
        return self.tile * unrolling(self.kernel)

    @functools.cached_property
    def tile(self) -> int:
        """Elements of a vector."""
        return lanes_of(self.kernel, host())

    @functools.cached_property
    def itemsize(self) -> int:
        """Bytes that one element of all buffers takes."""
        return sum(b.dtype.itemsize for b in self.buffers)

    def extents(self) -> tuple:
        """What ``geometry`` takes: outer indices in all, inner ones of a stage, lanes and tiled lanes (None where there are none); ints or Exprs."""
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

    def slots(self, number_of, block, blocks) -> list:
        """What fills its slots: (source, number) each; numbers are ints or Exprs, and ``block`` and ``blocks`` as given."""
        found = [(number_of(buffer), 0) for buffer in self.buffers] + self.scalars + [(-1, value) for value in self.parameters]
        if self.lane_size is not None:
            found += (-1, block), (-1, blocks)
        return found + [(number_of(None), 0)] if self.kernel.flag else found

    def launch(self, symbols: dict, number_of) -> Launch:
        """The launch for these sizes."""
        def known(e):
            return evaluate(e, symbols) if isinstance(e, Expr) else e

        extent, grain, *blocks = self.geometry(*map(known, self.extents()))
        return Launch(self.address, extent, grain, tuple((source, known(number)) for source, number in self.slots(number_of, *blocks)))

    def split(self, rows, lanes, inner):
        """(lanes of a unit, units per outer index): whole rows where there are many, cache-sized blocks where not."""
        width = self.width
        if self.across_size is not None:
            return TILE_ROWS, max(1, -(-lanes // TILE_ROWS))
        block = BLOCK if inner < 8 else width
        block = -(-block // width) * width
        if lanes <= block or rows >= 64 and inner < 8 and lanes <= 1 << 16:
            return max(1, lanes), 1
        return block, -(-lanes // block)


@dataclass
class Bound:
    """A program for certain sizes: its launches, bytes of each temporary; for each launch the pairs of values of which the first,
    written, may lie where the second lies.  Values are in the order inputs, fresh outputs, temporaries, error flag."""

    launches: list
    temporaries: list
    replaceable: list


class Program:
    """Kernels in order, for any sizes that meet the assumptions made while tracing.

    ``inputs`` and ``outputs`` count the values; ``output_metas`` describe the fresh outputs; ``checks``: whether the error
    flag may be raised.
    """

    def __init__(self, name: str, steps, inputs: int, output_metas, temporaries, checks: bool):
        self.name, self.steps, self.inputs, self.output_metas = name, steps, inputs, list(output_metas)
        self.temporaries, self.checks = temporaries, checks

    @property
    def symbolic(self) -> bool:
        """Whether it has to be bound to sizes."""
        return any(isinstance(v, Expr) for step in self.steps for v in (*step.parameters, *step.sizes, step.lane_size, step.across_size)) or any(
            isinstance(t.size, Expr) for t in self.temporaries)

    def number_of(self, buffer) -> int:
        """The value that a buffer is; None: the error flag."""
        outputs = self.inputs + len(self.output_metas)
        return outputs + len(self.temporaries) if buffer is None else {"input": 0, "output": self.inputs, "temporary": outputs}[buffer.kind] + buffer.number

    def bind(self, symbols: dict | None = None) -> Bound:
        """The program for these values of its symbols (Exprs or names)."""
        symbols, number_of = dict(symbols or {}), self.number_of
        launches = [step.launch(symbols, number_of) for step in self.steps]
        sizes = [max(1, evaluate(t.size, symbols)) * t.buffer.dtype.itemsize for t in self.temporaries]
        return Bound(launches, sizes, [[(number_of(a), number_of(b)) for a, b in step.replaceable] for step in self.steps])
