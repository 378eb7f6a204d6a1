"""Program: compiled kernels in order, to be bound to sizes."""
from __future__ import annotations

import struct
from dataclasses import dataclass

from ..core.expr import Expr, extent_of
from ..core.nodes import evaluate
from .kernel import Buffer, Kernel, parametrise, replaceable
from .launch import Launch


@dataclass
class Temporary:
    """Memory that lives while the program runs: ``size`` elements (an int or Expr)."""

    buffer: Buffer
    size: object


def float_bits(value: float) -> int:
    """The bits of a double, as a slot holds them."""
    return struct.unpack("<q", struct.pack("<d", value))[0]


class CompiledKernel:
    """A kernel as a device runs it: the ``address`` of its machine code, and the contents of its slots. The device
    compiles it and defines its geometry."""

    address: int

    def __init__(self, arranged: Kernel, scalars: dict):
        self.kernel, self.parameters, self.buffers, names = parametrise(arranged)
        self.replaceable = replaceable(arranged)
        self.scalars = [(scalars[name], 0) if isinstance(name, str) else (-1, float_bits(name)) for name in names]
        self.sizes = [extent_of(i) for i in arranged.outer]
        self.across_size = extent_of(arranged.across) if arranged.across is not None else None
        self.lane_size = extent_of(arranged.lane) if arranged.lane is not None else None
        self.inner = [extent_of(i) for i in max((s.loops for s in arranged.stages), key=len)]

    def extents(self) -> tuple:
        """The arguments of ``geometry``, ints or Exprs: the extents of the loops that decide how work is divided."""
        raise NotImplementedError

    def geometry(self, *extents) -> tuple:
        """(extent, grain, and two numbers that fill the slots of a kernel with lanes) for these sizes."""
        raise NotImplementedError

    def slots(self, number_of, block, blocks) -> list:
        """The contents of its slots: (source, number) each; numbers are ints or Exprs, and ``block`` and ``blocks`` as
        given."""
        found = [(number_of(buffer), 0) for buffer in self.buffers] + self.scalars + [(-1, value)
                                                                                      for value in self.parameters]
        if self.lane_size is not None:
            found += (-1, block), (-1, blocks)
        return found + [(number_of(None), 0)] if self.kernel.flag else found

    def launch(self, symbols: dict, number_of) -> Launch:
        """The launch for these sizes."""
        def known(e):
            return evaluate(e, symbols) if isinstance(e, Expr) else e

        extent, grain, *blocks = self.geometry(*map(known, self.extents()))
        return Launch(self.address, extent, grain,
                      tuple((source, known(number)) for source, number in self.slots(number_of, *blocks)))


@dataclass
class Bound:
    """A program for certain sizes: its launches, bytes of each temporary, and for each launch the pairs of values
    (written, read) that may share memory. Values are in the order inputs, fresh outputs, temporaries, error flag."""

    launches: list
    temporaries: list
    replaceable: list


class Program:
    """Kernels in order, for any sizes that meet the assumptions made while tracing.

    ``inputs`` and ``outputs`` count the values; ``output_metas`` describe the fresh outputs; ``checks``: whether the
    error flag may be raised.
    """

    def __init__(self, name: str, steps, inputs: int, output_metas, temporaries, checks: bool):
        self.name, self.steps, self.inputs, self.output_metas = name, steps, inputs, list(output_metas)
        self.temporaries, self.checks = temporaries, checks

    @property
    def symbolic(self) -> bool:
        """True if it must be bound to sizes."""
        return any(isinstance(v, Expr) for step in self.steps
                   for v in (*step.parameters, *step.sizes, step.lane_size, step.across_size)) or any(
            isinstance(t.size, Expr) for t in self.temporaries)

    def number_of(self, buffer) -> int:
        """The number of the value that a buffer holds; None for the error flag."""
        outputs = self.inputs + len(self.output_metas)
        return outputs + len(self.temporaries) if buffer is None else {"input": 0, "output": self.inputs,
                                                                       "temporary": outputs}[
                                                                           buffer.kind] + buffer.number

    def bind(self, symbols: dict | None = None) -> Bound:
        """The program for these values of its symbols (Exprs or names)."""
        symbols, number_of = dict(symbols or {}), self.number_of
        launches = [step.launch(symbols, number_of) for step in self.steps]
        sizes = [max(1, evaluate(t.size, symbols)) * t.buffer.dtype.itemsize for t in self.temporaries]
        return Bound(launches, sizes,
                     [[(number_of(a), number_of(b)) for a, b in step.replaceable] for step in self.steps])
