"""Kernels as WGSL modules, one per distinct source, and the number of units of a launch."""

from __future__ import annotations

import hashlib
import logging
from typing import NamedTuple

from ...compiler.kernel import scalar_inputs, walk
from ...compiler.lower import NotLowerable
from ...core.expr import Expr, extent_of
from ...core.meta import product
from ...core.nodes import evaluate
from ..shared.target import Modules, TextKernel
from ..shared.writer import Named, Refused, numbers_of, spread
from .emit import GROUP, SCANNED, THREADS, emit
from .windows import moving

kernels_log = logging.getLogger("rushlight.kernels")


class Module(NamedTuple):
    """WGSL source with what its launches bind: the element size of each buffer, which scalars are floats, and whether
    there is an error flag.

    ``threads``: units of one workgroup.  ``wide``: whether floats among its scalars are float64.  ``moves``: as
    ``windows.moving`` says."""

    name: str
    text: str
    itemsizes: tuple
    floats: tuple
    flag: bool
    threads: int
    wide: bool
    moves: tuple = ()

    @property
    def bindings(self) -> int:
        """Return how many buffers its launches bind, besides their arguments."""
        return len(self.itemsizes) + self.flag

    def groups(self, units: int) -> int:
        """Return the number of workgroups of a launch with ``units`` units."""
        return -(-units // self.threads) if self.threads else 1


modules = Modules()


TURNS = 60_000  # of all loops of a thread, where a driver leaves them after 65,535
LONG = {"float32": 600, "float64": 4300}  # turns of a remainder


def refuse_turns(turns: int, features, what: str, instead="compute it on the CPU"):
    """Raise RuntimeError if a thread takes more loop iterations than the driver, which would stop them early."""
    if "loops" not in features and turns > TURNS:
        raise RuntimeError(f"{what} takes more turns of a loop than this driver of Vulkan: {instead}")


def turns_of(kernel, sizes, shape: str):
    """The most turns of loops that a thread takes: an int, or an Expr of sizes."""
    total = 0
    for stage in kernel.stages:
        within = 1 + sum(turns_within(e) for e in set(stage.exprs()) if isinstance(e, Expr))
        for axis in stage.loops:
            extent = extent_of(axis)
            if isinstance(extent, Expr) and any(leaf.op != "size" for leaf in extent.free):  # of another loop's index
                extent = extent.high if isinstance(extent.high, int) else 1
            within = within * extent
        total = total + within
    if shape == "order":
        for size in sizes:
            total = total * size
        return total
    return total // GROUP if shape == "group" else 2 * total // GROUP + GROUP if shape == "scan" else total


def turns_within(e) -> int:
    """The most turns of loops within a value."""
    return sum(repeat.arg[2] for repeat in walk(e, "repeat")) + sum(
        LONG.get(one.dtype.name, 0) for name in ("fmod", "remainder", "floor_divide") for one in walk(e, name))


class ShaderKernel(TextKernel):
    """A kernel that the device's own compiler makes from WGSL."""

    written: dict = {}  # (a kernel's text, features, how its units are spread): its number

    def __init__(self, arranged, scalars: dict, features: frozenset, bindings: int):
        super().__init__(arranged, scalars)
        self.shape = spread(arranged, SCANNED)
        dtypes = " ".join(f"{b.dtype.name}" for b in self.kernel.buffers())
        key = (f"{self.kernel}\n{len(self.parameters)} {dtypes} {self.kernel.flag} {numbers_of(self.kernel)}", features,
               self.shape)
        bound = len(self.kernel.buffers()) + 1 + self.kernel.flag
        if bound > bindings:
            raise NotLowerable(Named("kernel"), f"it binds {bound} buffers; a shader here has {bindings}")
        self.turns = 0 if "loops" in features else turns_of(arranged, self.sizes, self.shape)
        if not isinstance(self.turns, Expr) and self.turns > TURNS:
            raise NotLowerable(Named("kernel"), f"{self.turns} loop iterations; this driver takes 65,535")
        self.address = self.written.get(key)
        if self.address is None:
            self.address = self.written[key] = self.module(key[0], features)

    def module(self, key: str, features) -> int:
        kernel, name = self.kernel, "k" + hashlib.sha256(key.encode()).hexdigest()[:12]
        try:
            text, _ = emit(kernel, len(self.parameters), features, self.shape)
        except Refused as reason:
            raise NotLowerable(Named(name), str(reason)) from None
        kernels_log.debug(
            "%s: %s\n%s\n%s", name, ", ".join(f"p{k} = {v}" for k, v in enumerate(self.parameters)), kernel, text
        )
        floats = tuple(
            s.dtype.is_floating_point
            for s in sorted(scalar_inputs(kernel), key=lambda s: int(s.arg[1:].split(".")[0]))
        )
        threads = {"order": 0, "thread": THREADS, "group": 1, "scan": 1}[self.shape]
        return modules.number(
            Module(
                name,
                text,
                tuple(b.dtype.itemsize for b in kernel.buffers()),
                floats,
                kernel.flag,
                threads,
                "f64" in features,
                moving(kernel, self.shape),
            )
        )

    def launch(self, symbols: dict, number_of):
        """The launch for these sizes.  RuntimeError for loops that the driver would leave early."""
        turns = evaluate(self.turns, symbols) if isinstance(self.turns, Expr) else 0
        if turns > TURNS:
            raise RuntimeError(f"a kernel for dynamic shapes takes {turns} loop iterations; this driver of Vulkan "
                               "takes 65,535: compute it with static shapes, or on the CPU")
        return super().launch(symbols, number_of)

    def extents(self) -> tuple:
        return product(self.sizes), self.lane_size

    def geometry(self, rows, lanes=None) -> tuple:
        """(units, 1): threads, or groups, that a launch has."""
        return (rows if lanes is None else rows * lanes), 1, 0, 0
