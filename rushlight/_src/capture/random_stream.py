"""RNG stream offsets, reserved together when a segment runs."""
from __future__ import annotations

from ..core.expr import Expr
from ..core.random import default_generator
from .errors import Break
from .parts import Part


class RandomStream(Part, part="random"):
    """Capture component for the RNG stream offsets of a segment."""

    needs = "outside",

    def __init__(self, machine):
        super().__init__(machine)
        self.stream, self.drawn = None, 0  # seed and RNG stream offset as inputs, and how many blocks are drawn
        self.agreed = {}  # owner that processes agree for -> (function, seed, offset)

    def draw(self, blocks, owner=None, agree=None):
        """Return an RNG seed and offset.  All offsets of a segment are reserved together when it runs, relative to one
        seed and offset; or to the results of ``agree(seed, position)`` at run time, once for each ``owner``."""
        if self.stream is None:
            self.stream = self.given()
        if self.machine.shape_env.unknown(blocks):
            raise Break("RB012", "a data-dependent count of random numbers")
        if owner is not None and owner not in self.agreed:
            self.agreed = {**self.agreed, owner: (agree, *self.given())}
        seed, position = self.stream if owner is None else self.agreed[owner][1:]
        place = self.machine.recorder.shifted(position, self.drawn) if self.drawn else position
        self.drawn += blocks
        return seed, place

    def given(self) -> tuple:
        """Return two graph inputs, for a seed and an offset."""
        found = self.machine.recorder.number(), self.machine.recorder.number()
        for number in found:
            self.outside.graph_inputs[number.node] = number.node.name, None
        return found

    def statements(self) -> list[str]:
        """Return statements that reserve the offsets of the segment."""
        if self.stream is None:  # an empty draw reserves nothing, but its program reads the current offset
            return []
        guarding = self.machine.guarding
        seed, position = (number.node.name for number in self.stream)
        drawn = guarding.expression(self.drawn) if isinstance(self.drawn, Expr) else self.drawn
        lines = [f"{seed}, {position} = {guarding.constant_name(default_generator)}.reserve({drawn})"]
        for agree, *numbers in self.agreed.values():
            names = ", ".join(number.node.name for number in numbers)
            lines.append(f"{names} = {guarding.constant_name(agree)}({seed}, {position})")
        return lines
