"""The functions of itertools, written in Python so that capture can follow the calls."""
from __future__ import annotations

MISSING = object()


def zip_longest(*iterables, fillvalue=None):
    iterators, end = [iter(x) for x in iterables], object()
    while iterators:
        row = [next(one, end) for one in iterators]
        if all(x is end for x in row):
            return
        yield tuple([fillvalue if x is end else x for x in row])


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


def accumulate(iterable, func=None, *, initial=None):
    total, empty = initial, initial is None
    if not empty:
        yield total
    for x in iterable:
        total = x if empty else (total + x if func is None else func(total, x))
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


def permutations(iterable, r=None):
    pool = list(iterable)
    rows = [()]
    for _ in range(len(pool) if r is None else r):
        rows = [row + (k,) for row in rows for k in range(len(pool)) if k not in row]
    for row in rows:
        yield tuple([pool[k] for k in row])


def combinations_with_replacement(iterable, r):
    pool = list(iterable)
    rows = [()]
    for _ in range(r):
        rows = [row + (k,) for row in rows for k in range(row[-1] if row else 0, len(pool))]
    for row in rows:
        yield tuple([pool[k] for k in row])


def cycle(iterable):
    seen = []
    for x in iterable:
        yield x
        seen.append(x)
    while seen:
        for x in seen:
            yield x


def compress(data, selectors):
    for x, chosen in zip(data, selectors):
        if chosen:
            yield x


def filterfalse(predicate, iterable):
    for x in iterable:
        if not (x if predicate is None else predicate(x)):
            yield x


def groupby(iterable, key=None):
    group, before = None, MISSING
    for x in iterable:
        k = x if key is None else key(x)
        if group is not None and k == before:
            group.append(x)
            continue
        if group is not None:
            yield before, iter(group)
        group, before = [x], k
    if group is not None:
        yield before, iter(group)


def tee(iterable, n=2):
    source, seen = iter(iterable), []

    def one():
        k = 0
        while True:
            if k == len(seen):
                x = next(source, MISSING)
                if x is MISSING:
                    return
                seen.append(x)
            yield seen[k]
            k += 1

    return tuple([one() for _ in range(n)])
