"""A user's function of attention scores (score_mod and mask_mod), compiled into the kernels as Exprs.

The function and its mask arrive as Exprs of the score, of its position (head, query, key), and of tensors they read.
"""

from dataclasses import dataclass

from ....core.expr import Expr, terms
from ...shared.attention import GRADIENT, SCORE, SPOT, Modification
from ..llvm import scalars
from ..llvm.values import constant
from ..llvm.scalars import COMPUTED, STORED
from ..llvm.types import f32, i8 as BYTE, i64, ptr, vector
from .blocked import Slots
from .expression import Emission
from .softmax import LOG2E, MINUS_INFINITY


@dataclass(frozen=True)
class Use:
    """The use of a Modification in a function of rows: with its mask, or without it for unmasked blocks."""

    modification: Modification
    masked: bool

    @property
    def parameters(self):
        """The parameters that functions of rows take for this."""
        return [(name, i64) for name in SPOT] + [("flag", ptr)] + [(b.name, ptr) for b in self.modification.buffers]

    def within(self, b, values):
        return Applied(b, self.modification, values, self.masked)


class Applied:
    """A Modification within one function of a kernel: `values` are the function's parameters of it."""

    def __init__(self, b, modification, values, masked):
        self.b, self.modification, self.masked = b, modification, masked
        self.place, self.flag, self.pointers = values[:4], values[4], dict(zip(modification.buffers, values[5:]))

    def scores(self, score, key, count):
        """Apply the function and the mask to natural scores; return scores in units of log 2. The first `count` lanes
        exist (None: all)."""
        b, m = self.b, self.modification
        emission = self.emission(score, key, count)
        if m.score is not None:
            score = b.mul(b.convert(emission.value(m.score), f32), LOG2E)
        if self.masked and m.mask is not None:
            score = b.select(emission.value(m.mask), score, constant(score.type, MINUS_INFINITY))
        return score

    def gradients(self, gradient, score, key, count):
        """Gradients of natural scores, given those of the function's results."""
        if self.modification.score is None:
            return gradient
        emission = self.emission(score, key, count)
        emission.values[GRADIENT] = gradient
        return self.b.convert(emission.value(self.modification.slope), f32)

    def emission(self, score, key, count):
        return Placed(self, score, key, count)


class Placed(Emission):
    """Emits instructions for Exprs over a vector of adjacent keys."""

    def __init__(self, applied, score, key, count):
        b, lanes = applied.b, score.type.lanes
        batch, head, query, first = applied.place
        super().__init__(b, {SCORE: score}, lanes)
        self.applied, self.there = applied, None if count is None else b.lane_mask(count, lanes)
        at, extents = applied.modification.at, [e.arg[1] for e in applied.modification.at]
        self.start = b.add(first, key)
        keys = b.add(b.splat(self.start, lanes), b.lane_indices(lanes))
        self.values[at[3]] = keys if count is None else b.minimum(keys, constant(keys.type, extents[3] - 1))
        self.values.update((e, b.splat(value, lanes))
                           for e, value in zip(at, (batch, head, b.minimum(query, extents[2] - 1))))

    def compute(self, e):
        if e.op == "const":
            return constant(vector(i64, self.lanes), e.arg)
        if e.op == "load":
            return self.load(e)
        if e.op not in INTEGERS:
            return super().compute(e)
        x = [self.value(a) for a in e.args]
        return INTEGERS[e.op](self, e, *x)

    def polynomial(self, e, *x):
        b, (coefficients, offset) = self.b, e.arg
        out = constant(x[0].type, offset)
        for value, c in zip(x, coefficients):
            out = b.sub(out, value) if c == -1 else b.add(out, value if c == 1 else b.mul(value, c))
        return out

    def product(self, e, *x):
        out = x[0]
        for factor in x[1:]:
            out = self.b.mul(out, factor)
        return out

    def divide(self, e, x, divisor):
        return scalars.integer_division(self.b, x, divisor, True)[e.op == "%"]

    def position(self, e, value, limit):
        """An index loaded from memory; out of range, it raises the error flag and is clamped."""
        b = self.b
        wide = b.convert(value, i64)
        wrong = b.or_(b.compare("<", wide, 0), b.compare(">=", wide, limit))
        if self.there is not None:
            wrong = b.and_(wrong, self.there)
        b.when(b.reduce("or", wrong), lambda: b.store(constant(i64, 1), self.applied.flag))
        return b.maximum(b.minimum(wide, b.sub(limit, 1)), 0)

    def load(self, e):
        """Load adjacent elements, one element for all lanes, or each lane's own."""
        b, key = self.b, self.applied.modification.at[3]
        stored, pointer = STORED[e.dtype.name], self.applied.pointers[e.arg]
        allowed = self.value(e.args[1]) if len(e.args) > 1 else None
        kind, at = vector(stored, self.lanes), e.args[0]
        steps = terms(at)[0].get(key) if isinstance(at, Expr) else None
        rest = at - key * steps if steps == 1 else at
        if steps == 1 and not (isinstance(rest, Expr) and key in rest.free):
            first = b.add(b.extract(self.value(rest), 0),
                          self.start) if isinstance(rest, Expr) else b.add(self.start, rest)
            mask = self.there if allowed is None else allowed if self.there is None else b.and_(allowed, self.there)
            found = b.load(kind, b.offset(pointer, first, stored), mask=mask)
        else:
            found = b.gather(kind, b.offset(pointer, self.value(at), stored), allowed)
        return scalars.from_memory(b, found, e.dtype)


INTEGERS = {
    "sum": Placed.polynomial, "product": Placed.product, "//": Placed.divide, "%": Placed.divide,
    "position": Placed.position,
    "max": lambda self, e, x, y: self.b.maximum(x, y), "min": lambda self, e, x, y: self.b.minimum(x, y),
    "<": lambda self, e, x, y: self.b.compare("<", x, y), "==": lambda self, e, x, y: self.b.compare("==", x, y),
    "value": lambda self, e, x: self.b.convert(x, COMPUTED[e.dtype.name])}


def block_states(b, s, batch, head, query, queries, key, keys):
    """Return (some score is unmasked, all scores are unmasked) within a range of queries and keys, as i1s, from the
    block mask."""
    base = b.offset(s.blocks, b.add(b.mul(batch, s.blocks_batch), b.mul(head, s.blocks_head)))
    rows, columns, step = s.block_queries, s.block_keys, s.blocks_row
    last_row, last_column = (b.div(b.sub(b.add(at, n), 1), size)
                             for at, n, size in ((query, queries, rows), (key, keys, columns)))

    def one_row(i, found):
        row = b.offset(base, b.mul(i, step))
        return b.loop(b.div(key, columns), b.add(last_column, 1), 1, found,
                      lambda j, found: look(b.offset(row, j), found))

    def look(place, found):
        state = b.cast("zext", b.load(BYTE, place), i64)
        return [b.maximum(found[0], state), b.minimum(found[1], state)]

    most, least = b.loop(b.div(query, rows), b.add(last_row, 1), 1, [constant(i64, 0), constant(i64, 2)], one_row)
    return b.compare(">", most, 0), b.compare("==", least, 2)


def has_blocks(modification):
    """True if a kernel gets a block mask."""
    return modification is not None and modification.mask is not None


def uses(modification):
    """The Uses of the row functions of a kernel: the first with the mask, the second, if there is one, for unmasked
    blocks."""
    if modification is None:
        return [None]
    if modification.mask is None:
        return [Use(modification, False)]
    return [Use(modification, True), Use(modification, False)]


def choose(b, everybody, functions, call):
    """Call the function of rows, without the mask if `everybody` is true (an unmasked block)."""
    if len(functions) == 1:
        call(functions[0])
    else:
        b.when(everybody, lambda: call(functions[1]), lambda: call(functions[0]))


def where_of(s, modification, batch, head, query, key):
    """Arguments for the parameters of a Modification."""
    if modification is None:
        return []
    return [batch, head, query, key, s.flag, *(getattr(s, b.name) for b in modification.buffers)]


def slots_of(f, args, names, pointers, modification):
    """A kernel's Slots, with those of a Modification."""
    if modification is None:
        return Slots(f, args, names, pointers)
    return Slots(f, args, (*names, *modification.names), (*pointers, *modification.pointers))
