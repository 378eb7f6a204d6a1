"""What the compiler asks of a type of device.  All that it knows of processors, instructions and machine code is behind
these entries."""
from __future__ import annotations

import contextlib
from typing import Callable, NamedTuple

from ..core.devices import cpu
from ..core.dtypes import float32
from ..core.expr import Expr
from .kernel import Kernel
from .launch import Launch


class Claim(NamedTuple):
    """What a device computes by a template.

    ``suits(node)`` tells whether there is one for a call.  ``plan(assembler, node, targets, prologues)`` gives what
    plans a problem, the problem, and the operands, Places by name;
    ``targets``: the Places of its results; ``prologues``: by the number of an argument, what is computed where it is
      packed.  ``output``: the name of the result in which the template
    computes an epilogue along, "" where it does not.  The first ``computed`` arguments may have a prologue:
    ``packings(node, number)`` tells how often the template packs one of them, 0 if it does not.  ``lies(meta)``: where
    results may lie.  ``heavy``: by the template even where kernels are switched off, since the NumPy meaning takes too
    long.
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
    """What stands for the sums ("sums", in the type they are computed in) or for an operand in an epilogue's Expr.

    Example:
        >>> leaf("sums").dtype
        torch.float32
    """
    return Expr("scalar", (), name, dtype)


class Operand(NamedTuple):
    """A tensor that an epilogue reads: its name, dtype, and what it has a number for: "row" (a channel of a
    convolution), "column" (a feature of a linear layer), "element" (the output, which it then is laid out as), or "one"
    for a single number."""

    name: str
    dtype: object
    along: str


class Stored(NamedTuple):
    """A further output of the same layout: its name, dtype, and the Expr that goes there."""

    name: str
    dtype: object
    value: Expr


class Target:
    """The compiler's half of a device; ``devices/base.py`` has the other."""

    def declines_attention(self, query, value) -> str | None:
        """Why no template computes attention of these queries and values as a whole, so that it goes by its formula;
        None where one does."""

    def declines_vendor_attention(self, query, value) -> str | None:
        """Why no library of the device's vendor computes it; None where one does."""
        return "it is a kernel for other devices"

    # --- kernels of ours ---
    def parts(self, kernel: Kernel, scratch) -> list[Kernel]:
        """A fused kernel as one or several with their axes in the order, merged and split as suits the device;
        ``scratch(dtype, size)`` gives a Buffer for sums in parts."""
        raise NotImplementedError

    def step(self, kernel: Kernel, scalars: dict):
        """The ``program.CompiledKernel`` of such a kernel: its binary code, and the geometry of its launch for given
        sizes.
        ``scalars``: the numbers of inputs that are run-time numbers, by name."""
        raise NotImplementedError

    def ahead(self):
        """A block in which code that is asked for may be made by others meanwhile; it can be run when the block ends,
        or after ``settle``."""
        return contextlib.nullcontext()

    def settle(self):
        """Returns when all code that was asked for is there to be run."""

    # --- templates ---
    def pays_with_channels_last(self, dtype: str, channels: int, outputs: int, groups: int) -> bool:
        """Whether a convolution of so many channels, and outputs of a group, is computed faster with channels last."""
        return False

    def claim(self, node) -> Claim | None:
        """What computes a call as a whole; None: kernels of ours, or ``fallback``."""
        return None

    def epilogue(self, value: Expr | None, operands, out, further, sums):
        """What a template computes before it stores: ``value`` over the leaf ``sums`` and those of the ``operands``;
        ``out``: (name, dtype) of the result, ``further``: other results (Stored).  None as ``value``: nothing."""
        raise NotImplementedError

    def prologue(self, value: Expr, leaves):
        """What a template computes where it packs an operand: ``value`` over ``leaves``, which stand for what it
        reads."""
        raise NotImplementedError

    # --- programs ---
    def fallback(self, graph, inputs: list, outputs: list):
        """(kernel, what keeps it) that computes a program by its NumPy meaning on memory of these Metas."""
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
        """How another process finds a kernel; None where it cannot."""
        return None

    def load(self, reference) -> int | None:
        """The kernel of a reference; None where it is lost."""
        return None

    def fingerprint(self) -> str:
        """What decides how programs come out."""
        raise NotImplementedError


def processor() -> Target:
    """The Target of the host."""
    return cpu.provider.target()
