"""Attention of few queries, as in decoding: every key and value is read once or a few times, so nothing is packed."""

from ..llvm.types import f32, i64, ptr, vector
from ..llvm.values import constant, zero
from .dot import LEAST, ahead_of, sums_along, totals
from .elements import LINE, Strided

MOST = 4     # queries
MOST_BESIDE_TILES = 2  # the same if AMX tiles are the alternative
KEYS = 8     # keys that are processed together
VECTORS = 4  # of a block of values' columns


def write_scores(module, numbers):
    """A function (query, keys, bytes from key to key, number of keys, their size, target): the scores of one query."""
    f = module.function("scores", [("query", ptr), ("keys", ptr), ("step", i64), ("count", i64), ("size", i64),
                                   ("out", ptr)], internal=True)
    query, keys, step, count, size, out = f.parameters
    last, nbytes = f.sub(count, 1), numbers.element.bytes
    ahead = ahead_of(f, KEYS, size, nbytes, f.compare("==", step, f.mul(size, nbytes)))

    def some(at, _):
        # indices past the end repeat the last key; their scores are past the row's end
        rows = [Strided(f, numbers, f.offset(keys, f.mul(f.minimum(f.add(at, k), last), step)), step)
                for k in range(KEYS)]
        sums, most = sums_along(f, numbers, [Strided(f, numbers, query)], rows, size, ahead), min(KEYS, numbers.lanes)
        for k in range(0, KEYS, most):
            found = f.shuffle(totals(f, sums[k:k + most]), None, range(most))
            f.store(found, f.offset(out, f.add(at, k), f32), align=4)

    f.loop(0, count, KEYS, [], some)
    f.ret()
    return f


def write_values(module, numbers):
    """A function (probabilities, values, bytes from row to row, count, columns, sums, corrections): multiplies a row of
    sums by its correction and adds its matmul with a block of VECTORS vectors of columns."""
    f = module.function("values", [("weights", ptr), ("values", ptr), ("step", i64), ("count", i64), ("columns", i64),
                                   ("out", ptr), ("corrections", ptr)],
                        internal=True)
    weights, values, step, count, columns, out, corrections = f.parameters
    lanes, kind = numbers.lanes, vector(f32, numbers.lanes)
    stored = numbers.element if numbers.per_word == 2 else f32  # as the function of rows leaves them
    masks = [f.lane_mask(f.sub(columns, j * lanes), lanes) for j in range(VECTORS)]
    places = [f.offset(out, j * lanes * 4) for j in range(VECTORS)]
    factor = f.splat(f.load(f32, corrections), lanes)
    further = f.mul(f.maximum(f.div(constant(i64, LEAST), f.maximum(step, 1)), constant(i64, KEYS)), step)
    last = f.sub(count, 1)

    def added(k, place, sums):
        """Add one row; probabilities past the end are 0."""
        weight = f.splat(f.convert(f.load(stored, f.offset(weights, k, stored)), f32), lanes)
        row = f.offset(values, f.mul(place, step))
        later = f.offset(row, further)
        for line in range(0, VECTORS * lanes * numbers.element.bytes, LINE):
            f.prefetch(f.offset(later, line), locality=2)
        found = []
        for j, (mask, total) in enumerate(zip(masks, sums)):
            loaded = f.load(vector(numbers.element, lanes), f.offset(row, j * lanes * numbers.element.bytes),
                            align=numbers.element.bytes, mask=mask)
            found.append(f.fma(weight, f.convert(loaded, f32), total))
        return found

    def two(k, sums):
        after = f.add(k, 1)
        return added(k, k, sums[:VECTORS]) + added(after, f.minimum(after, last), sums[VECTORS:])

    start = [f.mul(f.load(kind, place), factor) for place in places] + [zero(kind)] * VECTORS
    sums = f.loop(0, count, 2, start, two)
    for place, even, odd in zip(places, sums[:VECTORS], sums[VECTORS:]):
        f.store(f.add(even, odd), place)
    f.ret()
    return f
