"""Builtins that call back into Python, written in Python so that capture can follow the calls."""
from __future__ import annotations

import functools
import itertools
import operator
from collections import namedtuple  # noqa: F401  (for the functions below)


def instantiate(cls, new, init, args, kwargs):
    made = new(cls, *args, **kwargs)
    if init is not None and isinstance(made, cls):
        init(made, *args, **kwargs)
    return made


def all_(iterable):
    for x in iterable:
        if not x:
            return False
    return True


def any_(iterable):
    for x in iterable:
        if x:
            return True
    return False


def sum_(iterable, start=0):
    total = start
    for x in iterable:
        total = total + x
    return total


def map_(function, *iterables):
    for args in zip(*iterables):
        yield function(*args)


def filter_(function, iterable):
    for x in iterable:
        if x if function is None else function(x):
            yield x


def enumerate_(iterable, start=0):
    k = start
    for x in iterable:
        yield k, x
        k += 1


def zip_(*iterables, strict=False):
    iterators = [iter(x) for x in iterables]
    end = object()
    while iterators:
        row = []
        for one in iterators:
            x = next(one, end)
            if x is end:
                if strict and row:
                    raise ValueError(f"zip() argument {len(row) + 1} is shorter than argument 1")
                return
            row.append(x)
        yield tuple(row)


def list_(iterable):
    return [x for x in iterable]


def reduce_(function, iterable, *initial):
    iterator = iter(iterable)
    total = initial[0] if initial else next(iterator)
    for x in iterator:
        total = function(total, x)
    return total


def best(first, args, key, default, better):
    items = args[0] if len(args) == 1 else args
    found, found_key, empty = None, None, True
    for x in items:
        k = x if key is None else key(x)
        if empty or better(k, found_key):
            found, found_key, empty = x, k, False
    if empty:
        if default is first:
            raise ValueError("iterable argument is empty")
        return default
    return found


MISSING = object()


def max_(*args, key=None, default=MISSING):
    return best(MISSING, args, key, default, operator.gt)


def min_(*args, key=None, default=MISSING):
    return best(MISSING, args, key, default, operator.lt)


def sorted_(iterable, *, key=None, reverse=False):
    out = []
    for x in iterable:
        k = x if key is None else key(x)
        at = len(out)
        while at and (out[at - 1][0] < k if reverse else k < out[at - 1][0]):
            at -= 1
        out.insert(at, (k, x))
    return [x for _, x in out]


def sort_(items, *, key=None, reverse=False):
    items[:] = sorted(items, key=key, reverse=reverse)


def chain(*iterables):
    for one in iterables:
        for x in one:
            yield x


def chain_from(iterables):
    for one in iterables:
        for x in one:
            yield x


def islice(iterable, *bounds):
    window = slice(*bounds)
    start, stop, step = window.start or 0, window.stop, window.step or 1
    k = 0
    for x in iterable:
        if stop is not None and k >= stop:
            return
        if k >= start and (k - start) % step == 0:
            yield x
        k += 1


def product(*iterables, repeat=1):
    pools = [list(x) for x in iterables] * repeat
    rows = [()]
    for pool in pools:
        rows = [row + (x,) for row in rows for x in pool]
    for row in rows:
        yield row


def repeat(x, times=None):
    k = 0
    while times is None or k < times:
        yield x
        k += 1


def count(start=0, step=1):
    k = start
    while True:
        yield k
        k = k + step


def accumulate(iterable, function=None, *, initial=None):
    total, empty = initial, initial is None
    if not empty:
        yield total
    for x in iterable:
        total = x if empty else (total + x if function is None else function(total, x))
        empty = False
        yield total


def pairwise(iterable):
    before = MISSING
    for x in iterable:
        if before is not MISSING:
            yield before, x
        before = x


def starmap(function, iterable):
    for args in iterable:
        yield function(*args)


def takewhile(predicate, iterable):
    for x in iterable:
        if not predicate(x):
            return
        yield x


def dropwhile(predicate, iterable):
    dropping = True
    for x in iterable:
        if dropping and predicate(x):
            continue
        dropping = False
        yield x


def combinations(iterable, r):
    pool = list(iterable)
    n = len(pool)
    rows = [()]
    for _ in range(r):
        rows = [row + (k,) for row in rows for k in range(row[-1] + 1 if row else 0, n)]
    for row in rows:
        yield tuple([pool[k] for k in row])


def equal_sequences(a, b):
    if len(a) != len(b):
        return False
    for x, y in zip(a, b):
        if x is not y and not x == y:
            return False
    return True


def unequal_sequences(a, b):
    return not equal_sequences(a, b)


def contains(items, x):
    for y in items:
        if y is x or y == x:
            return True
    return False


POLYFILLS = {all: all_, any: any_, sum: sum_, map: map_, filter: filter_, max: max_, min: min_, sorted: sorted_, functools.reduce: reduce_,
             itertools.chain: chain, itertools.islice: islice, itertools.product: product, itertools.repeat: repeat, itertools.count: count,
             itertools.accumulate: accumulate, itertools.pairwise: pairwise, itertools.starmap: starmap, itertools.takewhile: takewhile,
             itertools.dropwhile: dropwhile, itertools.combinations: combinations, zip: zip_, enumerate: enumerate_}


def cached(instance, name, function):
    value = function(instance)
    object.__setattr__(instance, name, value)
    return value


def next_or(advance, iterator, default):
    try:
        return advance(iterator)
    except StopIteration:
        return default


def as_pairs(mapping):
    return [(k, mapping[k]) for k in mapping.keys()]
