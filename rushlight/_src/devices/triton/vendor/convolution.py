"""Convolutions as operation graphs of cuDNN: forward, the gradient of the image, and that of the weights."""

from __future__ import annotations

from typing import NamedTuple

from .dialects import BIAS
from .graphs import ADD, Graph, OF_DATA, OF_FILTER, OF_FORWARD, ROUNDED, Tensor, UNITS, UNORDERED, notes_of

DIRECTIONS = "forward", "input", "weight"
OPERATIONS = {  # by direction: the kind of descriptor, and its attributes of x, weights and y
    "forward": (OF_FORWARD, 700, {"weight": 703, "x": 704, "y": 705}),
    "input": (OF_DATA, 706, {"weight": 709, "x": 710, "y": 711}),
    "weight": (OF_FILTER, 712, {"weight": 715, "x": 716, "y": 717})}
RESULTS = dict(zip(DIRECTIONS, ("y", "x", "weight")))


class Convolved(NamedTuple):
    """A convolution as the library takes it: y [batch, outs, *out] of x [batch, ins, *size] with weights [outs, ins of
    a group, *kernel], each with its strides; two or three dimensions of pixels.

    ``parts``: of what is computed along with the result: "add", a tensor as the result, and "bias".  ``exact``: float32
    is not to be rounded; ``ordered``: it comes out the same each time."""

    batch: int
    ins: int
    outs: int
    groups: int
    size: tuple
    out: tuple
    kernel: tuple
    step: tuple
    pad: tuple
    far: tuple
    x: tuple
    y: tuple
    weight: tuple
    dtype: str
    parts: tuple = ()
    exact: bool = False
    ordered: bool = False

    def shape(self, name: str) -> tuple:
        return {"x": (self.batch, self.ins, *self.size), "y": (self.batch, self.outs, *self.out),
                "weight": (self.outs, self.ins // self.groups, *self.kernel)}[name]


def problem_of(fields: tuple) -> Convolved:
    return Convolved(*fields)


def suits(p: Convolved, configuration) -> bool:
    """True if an engine has the precision and the determinism that the problem requires."""
    unwanted = {UNITS, ROUNDED} if p.exact else set()
    unwanted |= {UNORDERED} if p.ordered else set()
    return not unwanted or not unwanted & notes_of(configuration)


def names(p: Convolved, direction: str) -> tuple:
    """Return the names of a run's operands, in the order of a launch's slots."""
    return "x", "weight", "y", *p.parts, "workspace"


def graph(dnn, p: Convolved, direction: str) -> Graph:
    """The result from the two others."""
    made, result = Graph(dnn), RESULTS[direction]
    held = {name: made.tensor(p.shape(name), p.dtype, name, getattr(p, name)) for name in ("x", "weight", "y")}
    wide = "float64" if p.dtype == "float64" else "float32"
    sums = made.tensor(p.shape(result), wide) if p.parts else held[result]
    made.convolve(*OPERATIONS[direction], held | {result: sums}, wide, (p.pad, p.step, p.far))
    for number, part in enumerate(p.parts):
        last = number == len(p.parts) - 1
        sums = made.point(ADD, sums, beside(made, p, part, result), out=held[result] if last else None)
    return made


def beside(made: Graph, p: Convolved, part: str, result: str) -> Tensor:
    """Return the tensor that is added to the result."""
    shape = p.shape(result)
    if part == BIAS:
        return made.tensor((1, shape[1], *(1,) * len(p.size)), p.dtype, part)
    return made.tensor(shape, p.dtype, part, getattr(p, result))
