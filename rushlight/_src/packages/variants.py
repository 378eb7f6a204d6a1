"""Plans of a program's items for all sizes within bounds, each valid under conditions.

Templates choose blocks and kernels by sizes.  A plan is made for example sizes with symbols in their place: the result
is launches with Exprs as numbers, and the conditions under which the template makes the same choices
(``core.shape_env.ShapeEnv``).  Further examples are planned until every point within the bounds is covered.
"""
from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import random
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..compiler.items import Generated
from ..compiler.launch import CONSTANT, Launch
from ..compiler.memory import ALIGNMENT
from ..compiler.places import FLAG
from ..core.expr import Expr, le, logical_not, size, substitute
from ..core.nodes import evaluate
from ..core.shape_env import REAL, ShapeEnv
from ..core.meta import PLAIN, Meta, Size
from ..devices.cpu.templates.conv import (Convolution, plan_conv, plan_conv_input_grad, plan_pixels,
                                           plan_pixels_input_grad)

EDGES = (16, 128, 1 << 62)  # sizes up to which one choice of blocks is taken
MOST_POINTS = 4096  # that are looked at; larger regions are sampled
MOST_VARIANTS = 160
UNBOUNDED = 1 << 31  # where a size without a bound ends


class TooManyVariants(RuntimeError):
    """A template whose choices differ for every single size."""


class Planning(ShapeEnv):
    """The ShapeEnv of a plan: non-integral numbers are estimates, which affect the speed of a result, not its value."""

    def real(self, symbol: str, a, b):
        if isinstance(a, complex) or isinstance(b, complex):  # a table's entries, no estimates
            return super().real(symbol, a, b)
        return REAL[symbol](evaluate(a, self.hints), evaluate(b, self.hints))


class Variant(NamedTuple):
    """``launches``: slots name a place by its number, a temporary by name, FLAG, or CONSTANT; numbers are ints or
    Exprs.  ``temporaries``: bytes by name.  ``conditions``: Exprs that all have to hold."""

    conditions: tuple
    launches: tuple
    temporaries: dict
    keep: tuple

    def holds(self, sizes: dict) -> bool:
        return all(evaluate(c, sizes) for c in self.conditions)


class Region:
    """Values of symbols: ``bounds``, {symbol: (least, greatest)}."""

    def __init__(self, bounds: dict):
        self.bounds = {s: (low, min(high, UNBOUNDED)) for s, (low, high) in bounds.items()}

    def parts(self, symbols):
        """Regions of these symbols by the order of their sizes."""
        choices = []
        for s in symbols:
            low, high = self.bounds[s]
            starts = [low, *(e + 1 for e in EDGES if low <= e < high)]
            choices.append([(s, (a, b)) for a, b in zip(starts, [*(n - 1 for n in starts[1:]), high])])
        return [Region(dict(chosen)) for chosen in itertools.product(*choices)]

    def middle(self) -> dict:
        """One point: a multiple of 8 where there is one."""
        found = {}
        for s, (low, high) in self.bounds.items():
            value = min(high, max(low, 2 * low, (low + min(high, 16 * low)) // 2))
            found[s] = value // 8 * 8 if value // 8 * 8 >= low else value
        return found

    def points(self) -> list:
        """All points, or as many as are looked at: corners, and others by chance."""
        return [dict(zip(self.bounds, values)) for values in within(tuple(self.bounds.values()))]

    def conditions(self) -> list:
        return [c for s, (low, high) in self.bounds.items()
                for c in ((le(low, s),) if low > s.low else ()) + ((le(s, high),) if high < min(s.high, UNBOUNDED)
                                                                   else ())]


@functools.lru_cache(maxsize=64)
def within(bounds: tuple) -> tuple:
    """Points within bounds: all, or corners and others by chance."""
    if math.prod(high - low + 1 for low, high in bounds) <= MOST_POINTS:
        return tuple(itertools.product(*(range(low, high + 1) for low, high in bounds)))
    rng, found = random.Random(0), list(itertools.product(*bounds))
    for k in range(MOST_POINTS):
        found.append(tuple(rng.randint(low, min(high, 16 * low + 64) if k % 2 else high) for low, high in bounds))
    return tuple(found)


@functools.lru_cache(maxsize=64)
def table_within(bounds: tuple) -> np.ndarray:
    """The same as an array, a row for each symbol."""
    points = within(bounds)
    return np.array(points, np.int64).reshape(len(points), len(bounds)).T


_numbers = itertools.count()


def fresh(region: Region) -> dict:
    """New symbols for those of a region, which caches cannot have met under other conditions."""
    return {s: low if low == high else size(f"{s.arg[0]}.{next(_numbers)}", low, high)
            for s, (low, high) in region.bounds.items()}


def replaced(value, symbols: dict):
    """A value with other symbols in it, however deep."""
    kind = type(value)
    if kind is Expr:
        return substitute(value, symbols) if value.free & symbols.keys() else value
    if kind in PLAIN:
        return value
    if kind is Meta:
        return Meta(replaced(tuple(value.shape), symbols), replaced(value.strides, symbols), value.dtype, value.device,
                    value.turned)
    if kind in (tuple, list, Size):
        return kind([replaced(v, symbols) for v in value])
    if kind is dict:
        return {key: replaced(v, symbols) for key, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*(replaced(v, symbols) for v in value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{f.name: replaced(getattr(value, f.name), symbols)
                                             for f in dataclasses.fields(value) if f.init})
    return value


def symbols_in(value) -> set:
    """The symbols in a value, however deep."""
    kind = type(value)
    if kind is Expr:
        return {e for e in value.free if e.op == "size"}
    if kind is Meta:
        return symbols_in((tuple(value.shape), value.strides))
    if isinstance(value, (tuple, list)):
        return set().union(*map(symbols_in, value))
    if kind is dict:
        return set().union(*map(symbols_in, value.values()))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return set().union(*(symbols_in(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init))
    return set()


def planned(item, symbols: dict):
    """(launches, temporaries, what keeps tables) of an item with other symbols in it."""
    if type(item) is Generated:
        return generated(item.program, len(item.values), symbols)
    plan = item.plan(replaced(item.problem, symbols), *replaced(list(item.more), symbols))
    numbers = {name: k for k, name in enumerate(item.operands)}
    launches = [step.launch(lambda name, offset: (numbers.get(name, name), offset)) for step in plan.steps]
    return launches, dict(plan.temporaries), tuple(plan.keep)


def generated(program, count: int, symbols: dict):
    """The same of generated kernels."""
    sizes = [replaced(t.size, symbols) * t.buffer.dtype.itemsize for t in program.temporaries]
    values = [*range(count), *(f"temporary {k}" for k in range(len(sizes))), FLAG]
    launches = []
    for step in program.steps:
        extent, grain, *blocks = step.geometry(*replaced(list(step.extents()), symbols))
        slots = [(CONSTANT if source == CONSTANT else values[source], number)
                 for source, number in replaced(step.slots(program.number_of, *blocks), symbols)]
        launches.append(Launch(step.address, extent, grain, tuple(slots)))
    return launches, {f"temporary {k}": n for k, n in enumerate(sizes)}, ()


def variant(item, region: Region, point: dict) -> Variant:
    """The plan of an item for a point, and where in the region it holds."""
    symbols = fresh(region)
    hints = {own: point[s] for s, own in symbols.items() if isinstance(own, Expr)}
    with Planning(hints) as shape_env:
        launches, temporaries, keep = planned(item, symbols)
    back = {own: s for s, own in symbols.items() if isinstance(own, Expr)}
    wanted = [c if outcome else logical_not(c) for c, outcome in shape_env.guards]
    conditions = [*region.conditions(), *(replaced(c, back) for c in wanted)]
    launches = tuple(Launch(launch.kernel, *replaced([launch.extent, launch.grain, launch.slots], back))
                     for launch in launches)
    return Variant(tuple(c for c in conditions if c.op != "number"), launches,
                   {name: replaced(n, back) for name, n in temporaries.items()}, keep)


class Blocks(NamedTuple):
    """Plans of a convolution for blocks of images, {images: Variant}: together they make up any ``batch``.  ``steps``:
    by value, the bytes from one image to the next."""

    batch: Expr
    plans: dict
    steps: tuple


def in_blocks(item, region: Region) -> Blocks:
    """A convolution block by block of images, whose counts are powers of two."""
    problem = item.problem
    most = evaluate(problem.batch, {s: high for s, (_, high) in region.bounds.items()})
    counts = [count for count in BLOCKS if count <= most]
    plans = {}
    for count in counts:
        block = item.moved(item.places())
        block.problem = replace(problem, batch=count)
        plans[count] = variant(block, Region({}), {})
    steps = []
    for name, place in item.operands.items():
        along = place.meta.shape and place.meta.shape[0] is problem.batch
        steps.append(place.meta.strides[0] * place.meta.itemsize if along else 0)
    return Blocks(problem.batch, plans, tuple(steps))


BLOCKS = (64, 32, 16, 8, 4, 2, 1)
SEPARATE = (plan_conv, plan_conv_input_grad, plan_pixels, plan_pixels_input_grad)  # images do not depend on each other


def alternatives(item, region: Region):
    """Return the launches of an item: a list of Variants, or Blocks."""
    problem = getattr(item, "problem", None)
    if type(problem) is Convolution and item.plan in SEPARATE and symbols_in(replace(problem, batch=1)) == set():
        if symbols_in(problem.batch):
            own = Region({s: region.bounds[s] for s in symbols_of(item)})
            if any(c.op == "==" for c in variant(item, own, own.middle()).conditions):
                return in_blocks(item, own)
    return variants(item, region)


def variants(item, region: Region) -> list[Variant]:
    """Plans of an item that cover a region, each point by the first whose conditions hold.

    TooManyVariants where a template decides by every size.
    """
    own = Region({s: region.bounds[s] for s in sorted(symbols_of(item), key=lambda s: s.serial)})
    found = []
    for part in own.parts(own.bounds):
        points, count = Points.of(part), 0
        while (point := points.next()) is not None:
            one = variant(item, part, point)
            if not one.holds(point):
                raise AssertionError(f"{item.label}: a plan for {point} does not hold there: {one.conditions}")
            found.append(one)
            count += 1
            if count > MOST_VARIANTS:
                raise TooManyVariants(f"{item.label} decides by every single size")
            points.cover(one.conditions)
    return found


class Points:
    """Points that nothing covers yet, all at once: ``next`` is one of them."""

    def __init__(self, points: list):
        self.columns = {s: np.array([p[s] for p in points], np.int64) for s in points[0]}
        self.count = len(points)

    @classmethod
    def of(cls, region: Region) -> "Points":
        """Those of a region, its middle first."""
        middle = region.middle()
        made, table = cls([middle]), table_within(tuple(region.bounds.values()))
        made.columns = {s: np.concatenate([[middle[s]], column]) for s, column in zip(region.bounds, table)}
        made.count += table.shape[1]
        return made

    def next(self) -> dict | None:
        return {s: int(column[0]) for s, column in self.columns.items()} if self.count else None

    def cover(self, conditions):
        """Forgets the points at which conditions hold."""
        known, left = dict(self.columns), np.zeros(self.count, bool)
        for c in conditions:
            left |= ~np.asarray(values(c, known), bool)
        self.columns = {s: column[left] for s, column in self.columns.items()}
        self.count = int(left.sum())


ARITHMETIC = {"//": np.floor_divide, "%": np.mod, "max": np.maximum, "min": np.minimum, "<": np.less, "==": np.equal,
              "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_not": np.logical_not,
              "product": np.multiply}


def values(e, known: dict):
    """Evaluate an Expr at many points; ``known``: by Expr, arrays of 64 bits."""
    if not isinstance(e, Expr) or e.op in ("const", "number"):
        return e.arg if isinstance(e, Expr) else e
    found = known.get(e)
    if found is None:
        args = [values(a, known) for a in e.args]
        if e.op == "sum":
            coefficients, found = e.arg
            for coefficient, a in zip(coefficients, args):
                found = found + coefficient * a
        elif len(args) == 1:
            found = ARITHMETIC[e.op](args[0])
        else:
            with np.errstate(divide="ignore"):  # by 0 it is 0, as in the code of a package
                found = functools.reduce(ARITHMETIC[e.op], args)
        known[e] = found
    return found


def symbols_of(item) -> set:
    """The symbols that decide what an item launches."""
    if type(item) is not Generated:
        return symbols_in((item.problem, tuple(item.more)))
    program = item.program
    return symbols_in([t.size for t in program.temporaries]) | set().union(
        *(symbols_in([step.extents(), step.slots(program.number_of, 0, 0)]) for step in program.steps))


def aligned(nbytes):
    """Bytes that a temporary takes."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
