"""Calls of a library between launches: their words, as the hot path's machine code reads them (``runner.py``)."""

from __future__ import annotations

import ctypes

from ....compiler.launch import CONSTANT, Launch
from ....core.log import logger
from ....core.native.memory import load_i64
from ..runner import CALLED, HEAD, TAIL
from .blas import ALIGNED, Product

log = logger("kernels")
STREAM = 15  # the argument of a product that is the stream


def record(function: int, slots: list, pointed=False, stream=STREAM) -> list:
    """The words of a call.  ``slots``: (value, number, bits that have to be 0) of its arguments; ``pointed``: whether
    the argument runner.POINTED is the address of the value that its slot gives, which those of the slots behind it
    follow; there may be more of them than an entry takes."""
    slots = [*slots, *((CONSTANT, 0, 0),) * (CALLED - len(slots))]
    count = len(slots)
    length = HEAD + 3 * count + 2 * (count + TAIL)
    return [function, stream, 0, int(pointed), count, length, *(word for slot in slots for word in slot),
            *(0,) * (2 * (count + TAIL))]


class ProductCall:
    """A product by the library as a launch of a program.  ``otherwise(launch)`` decodes the launch that does the same
    where the library has no algorithm for some addresses."""

    def __init__(self, blas, launch, p: Product, otherwise):
        self.blas, self.launch, self.product, self.aligned = blas, launch, p, (ALIGNED,) * 4
        self.names = p.names()
        self.slots = dict(zip(self.names, launch.slots))
        self.otherwise, self.decoded, self.chosen = otherwise, None, None

    def found(self, given: int, name: str) -> int:
        value, number = self.slots[name]
        return number if value == CONSTANT else load_i64(given, value) + number

    def records(self, board, given: int, wide: bool) -> list:
        """Return the records of the call, for the alignment that all addresses had until now."""
        addresses = [self.found(given, name) for name in ("a", "b", "add" if "add" in self.slots else "d", "d")]
        self.aligned = tuple(min(known, address & -address or ALIGNED)
                             for known, address in zip(self.aligned, addresses))
        proposed = self.blas.algorithms(self.product, self.aligned)
        fitting = [one for one in (*proposed[self.product.rank:], *proposed) if one.workspace <= self.product.room]
        if not fitting:
            return self.replaced(board, given, wide)
        self.chosen = fitting[0]
        return [*self.attributes(), self.call()]

    def replaced(self, board, given: int, wide: bool) -> list:
        """The records of the launch that does the same."""
        if not self.product.other:
            raise RuntimeError(f"{self.blas.dialect.name} has no algorithm for {self.product} at these addresses")
        if self.decoded is None:
            log.debug("%s has no algorithm for addresses that are multiples of %s: using Rushlight's kernel",
                      self.blas.dialect.name, self.aligned)
            self.decoded = self.otherwise(Launch(0, self.product.other[1], 1, self.launch.slots[len(self.names):]),
                                          self.product.other[0])
        return self.decoded.records(board, given, wide)

    def attributes(self) -> list:
        """The records that give an operation its addresses."""
        entry, operation = self.blas.address("MatmulDescSetAttribute"), self.blas.described(self.product).operation
        return [record(entry, [(CONSTANT, operation, 0), (CONSTANT, attribute, 0), (*self.slots[name], 0),
                               (CONSTANT, 8, 0)], pointed=True)
                for name, attribute in self.blas.pointers(self.product)]

    def call(self) -> list:
        """The record of the product."""
        made = self.blas.described(self.product)
        factors = ctypes.addressof(made.factors)
        size = ctypes.sizeof(made.factors) // 2
        a, b, added, d = ((*self.slots[name], one - 1) for name, one in zip(
            ("a", "b", "add" if "add" in self.slots else "d", "d"), self.aligned))
        known = [(CONSTANT, number, 0) for number in (
            self.blas.handle, made.operation, factors, made.a, made.b, factors + size, made.d, made.d,
            ctypes.addressof(self.chosen.place), self.product.room)]
        handle, operation, alpha, of_a, of_b, beta, of_c, of_d, algorithm, room = known
        return record(self.blas.address("Matmul"), [
            handle, operation, alpha, a, of_a, b, of_b, beta, added, of_c, d, of_d, algorithm,
            (*self.slots["workspace"], 0), room])
