"""Random numbers: places in the stream, taken all at once when a segment runs."""
from __future__ import annotations

from .errors import Break
from .parts import Part


class RandomStream(Part, part="random"):
    """The places in the random stream that a segment draws."""

    needs = "outside",

    def __init__(self, machine):
        super().__init__(machine)
        self.stream, self.drawn = None, 0  # seed and position in the random stream, and how many blocks are drawn

    def draw(self, blocks):
        """A place in the random stream.  All of a segment's are taken at once when it runs: a seed, and a position that
        is counted on from."""
        if self.stream is None:
            self.stream = self.machine.recorder.number(), self.machine.recorder.number()
            for drawn in self.stream:
                self.outside.graph_inputs[drawn.node] = drawn.node.name, None
        if self.machine.shape_env.unknown(blocks):
            raise Break("RB012", "random numbers, as many as data decide")
        seed, position = self.stream
        place = self.machine.recorder.shifted(position, self.drawn) if self.drawn else position
        self.drawn += blocks
        return seed, place
