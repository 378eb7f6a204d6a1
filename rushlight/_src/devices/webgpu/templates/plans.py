"""Launches of the tiled product for given sizes."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field
from math import prod

from ....compiler.launch import CONSTANT, Launch
from ....core import dtypes
from ..step import Modules
from .shapes import DIMENSIONS, IMAGE_NAMES, Images, Matrices
from .tiled import Epilogue, Tiled, tile_for


@dataclass(frozen=True)
class CompiledKernel:
    """A launch of a module: ``operands`` are named in the order of its buffers, ``numbers`` follow."""

    kernel: int
    extent: int
    operands: tuple
    numbers: tuple
    fills = ""

    def launch(self, place) -> Launch:
        slots = [place(name, 0) for name in self.operands] + [(CONSTANT, number) for number in self.numbers]
        return Launch(self.kernel, self.extent, 1, tuple(slots))


@dataclass(frozen=True)
class Contraction:
    """What a claim plans: steps, without temporaries."""

    steps: tuple
    temporaries: dict = field(default_factory=dict)
    keep: tuple = ()


def named(name: str):
    return getattr(dtypes, name)


class Templates:
    """Plans for a device of these features."""

    def __init__(self, features: frozenset):
        self.features = features
        self.module = functools.lru_cache(maxsize=None)(self.written)

    def written(self, shape: tuple, left, right, epilogue, tile) -> int:
        """The number of a module, which is written once."""
        made = Tiled(shape[0](*shape[1:]), left, right, epilogue, tile, self.features)
        name = "p" + hashlib.sha256(repr((shape, left, right, epilogue, tile)).encode()).hexdigest()[:12]
        return Modules.number(made.module(name))

    def plan(self, shape, left, right, epilogue, operands, sizes, batch, numbers) -> Contraction:
        """One launch over the tiles of a result of ``sizes``: rows, columns, depth."""
        tile = tile_for(*sizes[:2])
        beside = *(o.name for o in epilogue.operands), *(s.name for s in epilogue.further)
        units = batch * -(-sizes[0] // tile.size) * -(-sizes[1] // tile.size)
        kernel = self.module(shape, left, right, epilogue, tile)
        return Contraction((CompiledKernel(kernel, units, (*operands, *beside), (*sizes, *numbers)),))

    def plan_matmul(self, p, epilogue=None, a_from=None, b_from=None) -> Contraction:
        """A product of strided matrices."""
        left, right = a_from or named(p.dtype), b_from or named(p.b_dtype or p.dtype)
        epilogue = completed(epilogue, p.out_dtype or p.dtype)
        batch, numbers, operands = (*(1,) * (3 - len(p.batch)), *p.batch), [], []
        for name, given, parts, own in (("a", a_from, p.a_parts, p.a), ("b", b_from, p.b_parts, p.b)):
            strides = [part[:-1] for part in parts] if given else [own]
            operands += [f"{name}{k}" for k in range(len(strides))] if given else [name]
            for one in strides:
                numbers += [*(0,) * (3 - len(p.batch)), *one]
        counts = (len(a_from.leaves) if a_from else 1), (len(b_from.leaves) if b_from else 1)
        return self.plan((Matrices, *counts), left, right, epilogue, (*operands, "c"), (p.rows, p.columns, p.depth),
                         prod(batch), (*batch, *numbers))

    def plan_forward(self, c, epilogue=None) -> Contraction:
        """y from x and the weights."""
        return self.image("forward", c, epilogue, ("weight", "x", "y"))

    def plan_input(self, c, epilogue=None) -> Contraction:
        """x from y and the weights."""
        return self.image("input", c, epilogue, ("weight", "y", "x"))

    def plan_weight(self, c) -> Contraction:
        """The weights from y and x."""
        return self.image("weight", c, None, ("y", "x", "weight"))

    def image(self, direction, c, epilogue, operands) -> Contraction:
        ins, outs = c.in_channels // c.groups, c.out_channels // c.groups
        taps, xs, ys = prod(c.kernel), c.batch * prod(c.size), c.batch * prod(c.out)
        sizes = {"forward": (outs, ys, ins * taps), "input": (ins, xs, outs * taps), "weight": (outs, ins * taps, ys)}
        image, weight = named(c.dtype), named(c.b_dtype or c.dtype)
        left, right = (image, image) if direction == "weight" else (weight, image)
        found = completed(epilogue, c.out_dtype or c.dtype)
        return self.plan((Images, direction, bool(c.border)), left, right, found, operands, sizes[direction], c.groups,
                         image_numbers(c, ins, outs))


def completed(epilogue, out: str) -> Epilogue:
    """An epilogue with the dtype of its result."""
    return Epilogue(out=named(out)) if epilogue is None else epilogue


def image_numbers(c, ins: int, outs: int) -> tuple:
    """The numbers of ``IMAGE_NAMES`` behind the sizes; missing dimensions are 1 long, in front."""
    missing = len(DIMENSIONS) - len(c.size)

    def three(values, fill):
        return *(fill,) * missing, *values

    def image(strides, shape):
        strides = strides or row_major(shape)
        return *strides[:2], *three(strides[2:], 0)

    weights = image(c.w, (c.out_channels, ins, *c.kernel))
    found = (ins, outs, c.border, *three(c.size, 1), *three(c.out, 1), *three(c.kernel, 1), *three(c.stride, 1),
             *three(c.pad, 0), *three(c.dilation, 1), *image(c.x, (c.batch, c.in_channels, *c.size)),
             *image(c.y, (c.batch, c.out_channels, *c.out)), *weights)
    assert len(found) == len(IMAGE_NAMES) - 3
    return found


def row_major(shape) -> tuple:
    return tuple(prod(shape[k + 1:]) for k in range(len(shape)))
