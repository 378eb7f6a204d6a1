"""Target: the code-generation interface of a device type. Everything about CPUs, instructions and machine code is
behind it."""
from __future__ import annotations

import contextlib
from typing import Callable, NamedTuple

from ..core.devices import cpu
from ..core.dtypes import float32
from ..core.expr import Expr
from .kernel import Kernel
from .launch import Launch


class Claim(NamedTuple):
    """A device's statement that a template computes a node.

    ``suits(node)`` is True if the template computes a call. ``plan(assembler, node, targets, prologues)`` returns the
    planner of a problem, the problem, and the operands as Places by name;
    ``targets``: the Places of its results; ``prologues``: {number of an argument: the expression computed where it is
    packed}.
    ``output``: the name of the result into whose stores the template fuses an epilogue, "" if none.
    The first ``computed`` arguments may have a prologue: ``packings(node, number)`` returns how often the template
    packs one of them, 0 if it does not.
    ``lies(meta)``: True if a result may have this Meta. ``heavy``: use the template even if kernels are switched off,
    because the NumPy reference implementation takes too long.
    """

    suits: Callable
    plan: Callable
    lies: Callable
    output: str = ""
    computed: int = 0
    packings: Callable | None = None
    heavy: bool = False

    def times_packed(self, node, number: int) -> int:
        """How often the template of a call packs each element of an argument, and so could compute it; 0 where it
        cannot."""
        return self.packings(node, number) if self.packings is not None and number < self.computed else 0


def leaf(name: str, dtype=float32) -> Expr:
    """The leaf of an epilogue's Expr for an operand, or for the accumulators ("sums", in the type they are computed
    in).

    Example:
        >>> leaf("sums").dtype
        torch.float32
    """
    return Expr("scalar", (), name, dtype)


class Operand(NamedTuple):
    """A tensor that an epilogue reads: its name, dtype, and the dimension along which it varies: "row" (a channel of a
    convolution), "column" (a feature of a linear layer), "element" (the output, whose strides it then has), or "one"
    for a single number."""

    name: str
    dtype: object
    along: str


class Stored(NamedTuple):
    """A further output with the same strides: its name, dtype, and the Expr of its elements."""

    name: str
    dtype: object
    value: Expr


class Target:
    """The compiler's half of a device; ``devices/base.py`` has the other."""

    def declines_attention(self, query, value) -> str | None:
        """The reason why no template computes attention of these queries and values, so that it is decomposed; None if
        one does."""

    def declines_vendor_attention(self, query, value) -> str | None:
        """Why no library of the device's vendor computes it; None where one does."""
        return "it is a kernel for other devices"

    # --- generated kernels ---
    def parts(self, kernel: Kernel, scratch) -> list[Kernel]:
        """A fused kernel as one or several with their axes in the order, merged and split as suits the device;
        ``scratch(dtype, size)`` gives a Buffer for sums in parts."""
        raise NotImplementedError

    def step(self, kernel: Kernel, scalars: dict):
        """The ``program.CompiledKernel`` of such a kernel: its machine code, and the geometry of its launch for given
        sizes.
        ``scalars``: the numbers of the inputs that are run-time scalars, by name."""
        raise NotImplementedError

    def ahead(self):
        """A context manager in which requested code may be generated in the background; the code is usable when the
        block ends, or after ``settle``."""
        return contextlib.nullcontext()

    def settle(self):
        """Wait until all requested code is ready to run."""

    # --- templates ---
    def pays_with_channels_last(self, dtype: str, channels: int, outputs: int, groups: int) -> bool:
        """True if a convolution of ``channels`` channels, and ``outputs`` outputs of a group, is faster with channels
        last."""
        return False

    def claim(self, node) -> Claim | None:
        """The Claim for a call computed by a template; None: generated kernels or ``fallback`` compute it."""
        return None

    def epilogue(self, value: Expr | None, operands, out, further, sums):
        """The computation that a template performs before it stores: ``value`` over the leaf ``sums`` and those of the
        ``operands``; ``out``: (name, dtype) of the result, ``further``: other results (Stored). None as ``value``:
        nothing."""
        raise NotImplementedError

    def prologue(self, value: Expr, leaves):
        """The computation that a template performs where it packs an operand: ``value`` over ``leaves``, the elements
        that it reads."""
        raise NotImplementedError

    # --- programs ---
    def fallback(self, graph, inputs: list, outputs: list):
        """(kernel, its owner) that computes a program by the NumPy reference implementation on memory of these
        Metas."""
        raise NotImplementedError

    def now(self, launch: Launch):
        """Runs one launch whose slots are all constants, and waits for it."""
        raise NotImplementedError

    def code(self, launches, outputs, **fields):
        """The program as the device runs it (``code.Code``)."""
        raise NotImplementedError

    def restored(self, words, outputs, temporaries, keep, long, labels, names, callbacks, tables, packings=()):
        """A program that ``code`` made in another process: its words with the kernels' addresses put in, and the facts
        it had."""
        raise NotImplementedError

    # --- code on disk ---
    def reference(self, kernel: int):
        """A reference by which another process finds a kernel; None if it cannot."""
        return None

    def load(self, reference) -> int | None:
        """The kernel of a reference; None where it is lost."""
        return None

    def fingerprint(self) -> str:
        """A digest of everything that affects generated programs."""
        raise NotImplementedError


def processor() -> Target:
    """The Target of the host."""
    return cpu.provider.target()
