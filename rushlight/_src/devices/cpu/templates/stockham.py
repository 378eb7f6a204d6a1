"""The stages of a Fourier transform whose results are in order (Stockham; see Van Loan, Computational Frameworks for
the Fast Fourier Transform, 1992).

A stage of radix r takes x[q + s (p + m k)] for k < r and writes their transform, times exp(-2 pi i p k / (r m)), to
y[q + s (r p + k)].  Real and imaginary parts are in separate planes. If s fills vectors, they run along q; else along p
and q together.
"""

import numpy as np

from ..llvm.types import i64, ptr, vector
from .butterfly import side_by_side, times, transform

RADICES = (8, 4, 2, 3, 5, 7, 11, 13)
STAGE = [("x", ptr), ("y", ptr), ("plane", i64), ("table", ptr), ("m", i64), ("s", i64), ("places", ptr)]
WIDE = 0  # instead of s: at least a vector


def factors(n):
    """The radices of a transform of length n, eights first; None if a prime is too large."""
    found = []
    for r in RADICES:
        while n % r == 0:
            found.append(r)
            n //= r
    return found if n == 1 else None


class RadixStage:
    """One stage: its kind (radix, s or WIDE), m and s; `table`: twiddle factors in the order in which they are read;
    `places`: offsets of scattered results."""

    def __init__(self, r, m, s, lanes, dtype):
        self.kind, self.m, self.s = (r, s if s < lanes else WIDE), m, s
        p, k = np.arange(m)[:, None], np.arange(1, r)[None]
        turns = np.exp(-2j * np.pi / (r * m) * (p * k % (r * m)))
        self.places = np.zeros(0, np.int64)
        if s < lanes:  # [vectors, r - 1, parts, lanes]
            whole = -(-m * s // lanes) * lanes
            at = np.minimum(np.arange(whole) // s, m - 1)
            turns = turns[at].reshape(-1, lanes, r - 1).transpose(0, 2, 1)
            self.table = np.stack([turns.real, turns.imag], 2).astype(dtype)
            self.places = np.arange(whole) % s + s * r * (np.arange(whole) // s)
        else:  # [p, r - 1, parts]
            self.table = np.stack([turns.real, turns.imag], 2).astype(dtype)


def stages(n, s, lanes, dtype):
    """The stages of s interleaved transforms of length n."""
    found, left = [], n
    for r in factors(n):
        left //= r
        found.append(RadixStage(r, left, s, lanes, dtype))
        s *= r
    return found


def write_stage(module, kind, element, lanes):
    """The function of a kind of stage."""
    f = module.function("stage_%d_%d" % kind, STAGE, internal=True)
    r, s = kind
    (_wide if s == WIDE else _narrow)(f, r, s, element, lanes)
    f.ret()
    return f


def _load(f, at, plane, kind, mask):
    return f.load(kind, at, mask=mask), f.load(kind, f.offset(at, plane), mask=mask)


def _store(f, value, at, plane, mask):
    f.store(value[0], at, mask=mask)
    f.store(value[1], f.offset(at, plane), mask=mask)


def _wide(f, r, _, element, lanes):
    x, y, plane, table, m, s, _ = f.parameters
    kind, size = vector(element, lanes), element.bytes
    apart, step = f.mul(f.mul(m, s), size), f.mul(s, size)

    def one(p, _):
        turns = [[f.splat(f.load(element, f.offset(table, f.add(f.mul(p, 2 * (r - 1)), 2 * k + c), element)), lanes)
                  for c in range(2)] for k in range(r - 1)]
        source, target = f.offset(x, f.mul(p, step)), f.offset(y, f.mul(p, f.mul(step, r)))

        def some(q, mask):
            given = [_load(f, f.offset(f.offset(source, f.mul(apart, k)), q, element), plane, kind, mask)
                     for k in range(r)]
            first, *others = transform(f, given)
            for k, v in enumerate([first, *(times(f, v, w) for v, w in zip(others, turns))]):
                _store(f, v, f.offset(f.offset(target, f.mul(step, k)), q, element), plane, mask)

        whole = f.and_(s, -lanes)
        f.loop(0, whole, lanes, [], lambda q, _: some(q, None))
        f.loop(whole, s, lanes, [], lambda q, _: some(q, f.lane_mask(f.sub(s, q), lanes)))

    f.loop(0, m, 1, [], one)


def _narrow(f, r, s, element, lanes):
    x, y, plane, table, m, _, places = f.parameters
    kind, total = vector(element, lanes), f.mul(m, s)
    in_order = r & r - 1 == 0 and s & s - 1 == 0

    def some(t, mask):
        given = [_load(f, f.offset(x, f.add(t, f.mul(total, k)), element), plane, kind, mask) for k in range(r)]
        turns = f.offset(table, f.mul(t, 2 * (r - 1)), element)
        first, *others = transform(f, given)
        others = [times(f, v, [f.load(kind, f.offset(turns, (2 * k + c) * lanes, element)) for c in range(2)])
                  for k, v in enumerate(others)]
        found = [first, *others]
        if in_order and mask is None:
            target = f.offset(y, f.mul(t, r), element)
            for k, v in enumerate(zip(*(side_by_side(f, [v[c] for v in found], s) for c in range(2)))):
                _store(f, v, f.offset(target, k * lanes, element), plane, None)
            return
        at = f.load(vector(i64, lanes), f.offset(places, t, i64))
        for k, v in enumerate(found):
            to = f.offset(y, f.add(at, s * k), element)
            f.scatter(v[0], to, mask)
            f.scatter(v[1], f.offset(to, f.splat(plane, lanes)), mask)

    whole = f.and_(total, -lanes)
    f.loop(0, whole, lanes, [], lambda t, _: some(t, None))
    f.loop(whole, total, lanes, [], lambda t, _: some(t, f.lane_mask(f.sub(total, t), lanes)))


def write_stages(module, kinds, element, lanes):
    """A function (x, room, plane, stages, count, twiddles, places): runs stages one after the other and returns the
    address of the result. A stage is a row of int64: its kind, m, s, and the offsets of its table and its places."""
    functions = {kind: write_stage(module, kind, element, lanes) for kind in kinds}
    f = module.function("stages", [("x", ptr), ("room", ptr), ("plane", i64), ("rows", ptr), ("count", i64),
                                   ("tables", ptr), ("places", ptr)], ptr, internal=True)
    x, room, plane, rows, count, tables, places = f.parameters

    def one(at, pointers):
        here, there = pointers
        row = f.offset(rows, f.mul(at, 5), i64)
        which, m, s, table, place = (f.load(i64, f.offset(row, 8 * k)) for k in range(5))
        given = [here, there, plane, f.offset(tables, table, element), m, s, f.offset(places, place, i64)]
        f.switch(which, {k: (lambda function=function: f.call(function, given))
                         for k, function in enumerate(functions.values())})
        return [there, here]

    found, _ = f.loop(0, count, 1, [x, room], one)
    f.ret(found)
    return f


def stage_rows(found, kinds):
    """Return the arguments of the function of stages: (rows, tables, places)."""
    rows, tables, places = [], [], []
    table_at = place_at = 0
    for stage in found:
        rows.append([kinds.index(stage.kind), stage.m, stage.s, table_at, place_at])
        tables.append(stage.table.reshape(-1))
        places.append(stage.places)
        table_at, place_at = table_at + stage.table.size, place_at + stage.places.size
    return np.array(rows, np.int64).reshape(-1, 5), np.concatenate([*tables, np.zeros(8)]), np.concatenate(
        [*places, np.zeros(1, np.int64)])


