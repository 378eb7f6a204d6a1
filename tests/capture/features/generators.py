"""Generators and iterators: advanced, closed, raised into, returned; what itertools and builtins make of them."""
import itertools
import operator

from .table import case


@case()
def generator(x):
    def steps(n):
        for k in range(n):
            yield x * k

    return list(steps(3)), sum(steps(2))


@case()
def generator_next(x):
    def steps():
        yield 1
        yield x
    g = steps()
    first = next(g)
    second = next(g)
    return first, second, next(g, "done")


@case()
def generator_send(x):
    def echo():
        got = yield 0
        while True:
            got = yield got * 2

    g = echo()
    next(g)
    return g.send(3), g.send(x)


@case()
def generator_return_value(x):
    def inner():
        yield 1
        return x

    def outer():
        result = yield from inner()
        yield result

    return list(outer())


@case()
def generator_expression(x):
    return sum(x * k for k in range(3)), list(v for v in (1, 2)), any(v > 1 for v in (1, 2)), max(
        k * 2 for k in range(3))


@case()
def generator_close_and_finally(x):
    log = []

    def steps():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    g = steps()
    next(g)
    g.close()
    return log, x


@case()
def generator_throw(x):
    def steps():
        try:
            yield 1
        except ValueError as error:
            yield str(error)

    g = steps()
    next(g)
    return g.throw(ValueError("inside")), x


@case()
def generator_raises(x):
    def steps():
        yield 1
        raise KeyError("k")

    out = []
    try:
        for v in steps():
            out.append(v)
    except KeyError as error:
        out.append(repr(error))
    return out, x


@case()
def generator_returned(x):
    def steps():
        yield x
        yield x + 1

    return tuple(steps()), [*steps()]


@case()
def generator_in_the_middle_of_loop(x):
    def naturals():
        k = 0
        while True:
            yield k
            k += 1

    for k in naturals():
        x = x + k
        if k == 3:
            break
    return x


@case()
def generator_pipeline(x):
    def squares(items):
        for i in items:
            yield i * i

    def odd(items):
        for i in items:
            if i % 2:
                yield i

    return x * sum(odd(squares(range(5))))


@case()
def iter_with_sentinel(x):
    items = [1, 2, 0, 3]
    return list(iter(lambda: items.pop(0), 0)), items, x


@case()
def map_filter_zip(x):
    return list(map(lambda a, b: a + b, [x, 1], [1, 2])), list(filter(lambda v: v > 1,
                                                                      [1, 2, 3])), list(zip([1, 2], (x, 3),
                                                                                            "ab")), list(
                                                                                                filter(None, [0, 2]))


@case()
def map_is_lazy(x):
    seen = []
    m = map(lambda v: seen.append(v) or v * 2, [1, 2, 3])
    before = list(seen)
    first = next(m)
    return before, first, seen, list(m), x


@case()
def zip_stops_at_shortest(x):
    a = iter([1, 2, 3])
    return list(zip([x, x], a)), list(zip(*[(1, 2), (3, 4)])), list(zip())


@case()
def zip_strict(x):
    try:
        return list(zip([1], [1, 2], strict=True))
    except ValueError as error:
        return type(error).__name__, x


@case()
def enumerate_start(x):
    return [(i, v) for i, v in enumerate([x, 2], start=5)], dict(enumerate("ab"))


@case()
def reversed_things(x):
    return list(reversed([1, 2])), list(reversed((1, x))), "".join(reversed("abc")), list(reversed({"a": 1, "b": 2}))


@case()
def itertools_chain(x):
    return list(itertools.chain([1], (x,), range(2))), list(itertools.chain.from_iterable([[1], [2]]))


@case()
def itertools_windows(x):
    return list(itertools.islice(itertools.count(2, 3), 1,
                                 4)), list(itertools.pairwise([x, 2, 3]))[1], list(itertools.takewhile(lambda v: v < 3,
                                                                                                       [1, 2, 3, 1])), \
        list(itertools.dropwhile(lambda v: v < 3, [1, 2, 3, 1]))


@case()
def itertools_combinatorics(x):
    return list(itertools.product([1, 2], "ab")), list(itertools.combinations(range(3), 2)), list(
        itertools.permutations([1, 2, 3], 2)), x


@case()
def itertools_accumulate_repeat(x):
    return list(itertools.accumulate([1, 2, 3], operator.mul)), list(itertools.repeat(x, 2)), list(
        itertools.starmap(pow, [(2, 3)])), \
        [k for k, _ in zip(itertools.cycle("ab"), range(3))]


@case()
def itertools_more(x):
    return list(itertools.zip_longest([1, 2], [3], fillvalue=0)), list(itertools.compress("abc", [1, 0, 1])), \
        list(itertools.filterfalse(lambda v: v % 2, range(4))), [(k, list(g)) for k, g in itertools.groupby("aabbb")], x


@case()
def itertools_tee(x):
    a, b = itertools.tee([1, 2, 3])
    return next(a), list(b), list(a), x
