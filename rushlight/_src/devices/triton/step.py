"""Kernels as Triton modules, one per distinct source, and the number of programs of a launch."""

from __future__ import annotations

import hashlib
import logging
from typing import NamedTuple

from ...compiler.lower import NotLowerable
from ...core.dtypes import bool_
from ...core.expr import INFINITY, Expr
from ...core.meta import product
from ..shared.target import Modules, TextKernel
from ..shared.writer import Named, Refused, form, numbers_of, spread
from .emit import Emitter
from .scalars import MEMORY, POINTERS, TYPES

kernels_log = logging.getLogger("rushlight.kernels")
LEAST, MOST, SCANNED = 64, 4096, 2048  # elements of a block; of one of a scan at most
LONG = 256  # elements of a row whose scan a program shares, at least


class Module(NamedTuple):
    """Triton source with the parameters of its launches.

    ``pointers``: types of the buffers, in order.  ``tables``: (numbers, dtype) that it reads from memory.  ``flag``:
    whether there is an error flag.  ``numbers``, ``parameters``: how many scalars and sizes.  ``form``: what a program
    of the grid computes.  ``blocks``: (name, number) of constants that a launch does not choose; without any it chooses
    BLOCK.  ``warps`` and ``stages`` of a template; 0: as suits the block."""

    name: str
    text: str
    pointers: tuple
    tables: tuple
    flag: bool
    numbers: int
    parameters: int
    form: str
    blocks: tuple = ()
    warps: int = 0
    stages: int = 0

    def programs(self, units: int, block: int) -> int:
        """Return the number of programs of a launch with ``units`` work units."""
        return {"thread": -(-units // block), "group": units, "scan": units, "order": 1}[self.form]

    def constants(self, block: int) -> dict:
        """The constants of a launch by name."""
        return dict(self.blocks) if self.blocks else {"BLOCK": block}

    def warps_of(self, block: int) -> int:
        """Warps that share a program."""
        return self.warps or (1 if self.form == "order" or block <= 128 else 4 if block <= 1024 else 8)

    def signature(self, wide: bool) -> dict:
        """{argument: its type in Triton}; ``wide``: sizes and positions have 64 bits."""
        whole = "i64" if wide else "i32"
        found = [(f"b{k}", pointer) for k, pointer in enumerate(self.pointers)]
        found += [(f"t{k}", POINTERS[TYPES[dtype]]) for k, (_, dtype) in enumerate(self.tables)]
        found += [("flag", "*i64")] if self.flag else []
        found += [("units", whole), *((f"s{k}", "i64") for k in range(self.numbers))]
        found += [(f"p{k}", whole) for k in range(self.parameters)]
        return dict(found) | {name: "constexpr" for name in self.constants(0)}


modules = Modules()


def power_above(number: int) -> int:
    """Return the least power of 2 that is not below a number."""
    return 1 << max(0, number - 1).bit_length()


def known(extent):
    """The extent of a loop that grows with another one: its greatest, or a guess."""
    if not isinstance(extent, Expr) or not any(x.op == "index" for x in extent.free):
        return extent
    return extent.high if extent.high < INFINITY else MOST


class TritonKernel(TextKernel):
    """A kernel that Triton compiles."""

    written: dict = {}  # by a kernel's text: its number

    def __init__(self, arranged, scalars: dict):
        super().__init__(arranged, scalars)
        self.shape = spread(arranged, LONG)
        if any(r.value.dtype is bool_ for s in arranged.stages for r in s.reductions):  # which no scan of Triton has
            self.shape = form(arranged)
        dtypes = " ".join(f"{b.dtype.name}" for b in self.kernel.buffers())
        key = f"{self.kernel}\n{len(self.parameters)} {dtypes} {self.kernel.flag} {numbers_of(self.kernel)} "
        key += self.shape
        self.address = self.written.get(key)
        if self.address is None:
            self.address = self.written[key] = modules.number(self.module(key))

    def module(self, key: str) -> Module:
        kernel, name = self.kernel, "k" + hashlib.sha256(key.encode()).hexdigest()[:12]
        try:
            emitter = Emitter(kernel, len(self.parameters), self.shape)
            text = emitter.text(name)
        except Refused as reason:
            raise NotLowerable(Named(name), str(reason)) from None
        kernels_log.debug(
            "%s: %s\n%s\n%s", name, ", ".join(f"p{k} = {v}" for k, v in enumerate(self.parameters)), kernel, text
        )
        pointers = tuple(POINTERS[MEMORY[b.dtype.name]] for b in kernel.buffers())
        return Module(name, text, pointers, tuple(emitter.tables), kernel.flag, len(self.scalars), emitter.count,
                      emitter.form)

    def extents(self) -> tuple:
        """What ``geometry`` takes: outer indices in all, elements of a stage's loops, lanes (None: there are none)."""
        return product(self.sizes), product(map(known, self.inner)), self.lane_size

    def geometry(self, rows, inner, lanes=None) -> tuple:
        """(units, elements of a block) that a launch has."""
        units, kind = rows if lanes is None else rows * lanes, self.shape
        if kind == "scan":
            return units, max(LEAST, min(SCANNED, power_above(inner))), 0, 0
        if kind == "order":
            return units, 1, 0, 0
        if kind == "group":
            return units, max(LEAST, min(MOST, power_above(inner))), 0, 0
        if inner > 1:  # each runs through its loops: as many programs as there may be
            return units, 128, 0, 0
        return units, 128 if units < 1 << 14 else 256 if units < 1 << 18 else 1024, 0, 0
