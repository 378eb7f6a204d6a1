"""Random numbers: places in the stream, taken all at once when a segment runs."""
from __future__ import annotations

from ..core.expr import Expr
from ..core.random import default_generator
from .errors import Break
from .parts import Part


class RandomStream(Part, part="random"):
    """The places in the random stream that a segment draws."""

    needs = "outside",

    def __init__(self, machine):
        super().__init__(machine)
        self.stream, self.drawn = None, 0  # seed and position in the random stream, and how many blocks are drawn
        self.agreed = {}  # what processes agree for -> (function, seed, position)

    def draw(self, blocks, owner=None, agree=None):
        """A place in the random stream.  All of a segment's are taken at once when it runs: a seed, and a position that
        is counted on from; or what ``agree(seed, position)`` makes of them when it runs, once for each ``owner``."""
        if self.stream is None:
            self.stream = self.given()
        if self.machine.shape_env.unknown(blocks):
            raise Break("RB012", "random numbers, as many as data decide")
        if owner is not None and owner not in self.agreed:
            self.agreed = {**self.agreed, owner: (agree, *self.given())}
        seed, position = self.stream if owner is None else self.agreed[owner][1:]
        place = self.machine.recorder.shifted(position, self.drawn) if self.drawn else position
        self.drawn += blocks
        return seed, place

    def given(self) -> tuple:
        """Two graph inputs, for a seed and a position."""
        found = self.machine.recorder.number(), self.machine.recorder.number()
        for number in found:
            self.outside.graph_inputs[number.node] = number.node.name, None
        return found

    def statements(self) -> list[str]:
        """Statements that take the places of the segment."""
        if self.stream is None:  # an empty draw takes no place, but its program reads where it stands
            return []
        guarding = self.machine.guarding
        seed, position = (number.node.name for number in self.stream)
        drawn = guarding.expression(self.drawn) if isinstance(self.drawn, Expr) else self.drawn
        lines = [f"{seed}, {position} = {guarding.constant_name(default_generator)}.reserve({drawn})"]
        for agree, *numbers in self.agreed.values():
            names = ", ".join(number.node.name for number in numbers)
            lines.append(f"{names} = {guarding.constant_name(agree)}({seed}, {position})")
        return lines
