"""Builtins that call back into Python, written in Python so that capture can follow the calls."""
from __future__ import annotations

import functools
import itertools
import operator

from ..core.dtypes import float64, int64
from ..core.native import Tensor, held, mine, scopes
from . import polyfills_of_itertools
from .polyfills_of_itertools import (MISSING, accumulate, chain, combinations, combinations_with_replacement, compress,
                                     count, cycle, dropwhile, filterfalse, groupby, islice, pairwise, permutations,
                                     product, repeat, starmap, takewhile, tee, zip_longest)

DTYPES = {int: int64, float: float64}


def instantiate(cls, new, init, args, kwargs):
    made = new(cls, *args, **kwargs)
    if init is not None and isinstance(made, cls):
        init(made, *args, **kwargs)
    return made


def conforming(name, cls, answer):
    """Convert the result of a special method as the builtin does; answered by the capture component."""


def answered(name, method, owner, *more):
    return conforming(name, type(owner), method(owner, *more))


def property_or(get, fallback, owner, name):
    try:
        return get(owner)
    except AttributeError:
        return fallback(owner, name)


def first_of(iterable, count):
    found = []
    for x in iterable:
        found.append(x)
        if len(found) == count:
            break
    return found


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


def loop_with_numbers(loop, tensor, cond_fn, body_fn, carried, more, numbers):
    """``while_loop`` over values that include ``numbers``, by position: the loop carries these as tensors."""
    def as_tensors(values):
        return tuple([tensor(v, dtype=DTYPES[numbers[k]]) if k in numbers else v for k, v in enumerate(values)])

    def as_given(values):
        return tuple([v.item() if k in numbers else v for k, v in enumerate(values)])

    def test(*values):
        found = cond_fn(*as_given(values))
        return tensor(found) if isinstance(found, bool) else found

    def body(*values):
        found = body_fn(*as_given(values))
        for k, kind in numbers.items():
            if type(found[k]) is not kind:
                raise TypeError(f"the number carried at index {k} becomes a {type(found[k]).__name__}")
        return as_tensors(found)

    return as_given(loop(test, body, as_tensors(carried), more))


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
                if strict:
                    strictly(iterators, row, end)
                return
            row.append(x)
        yield tuple(row)


def strictly(iterators, row, end):
    """Raise the error for iterables of different lengths: the one after ``row`` has ended."""
    k = len(row)
    others = "argument 1" if k == 1 else f"arguments 1-{k}"
    if k:
        raise ValueError(f"zip() argument {k + 1} is shorter than {others}")
    for k, one in enumerate(iterators):
        if k and next(one, end) is not end:
            raise ValueError(f"zip() argument {k + 1} is longer than "
                             + ("argument 1" if k == 1 else f"arguments 1-{k}"))


def list_(iterable):
    return [x for x in iterable]


def reduce_(function, iterable, *initial):
    iterator = iter(iterable)
    total = initial[0] if initial else next(iterator, MISSING)
    if total is MISSING:
        raise TypeError("reduce() of empty iterable with no initial value")
    for x in iterator:
        total = function(total, x)
    return total


def words_of(function):
    """Return a builtin's error message for an empty iterable, which depends on the Python version."""
    try:
        function(())
    except ValueError as error:
        return str(error)


OF_NOTHING = words_of(max), words_of(min)


def best(args, key, default, better, of_nothing):
    """Implement max and min: the first item that no other's key is ``better`` than; ``default`` for no items, or
    ValueError with the message ``of_nothing``."""
    items = args[0] if len(args) == 1 else args
    found, found_key, empty = None, None, True
    for x in items:
        k = x if key is None else key(x)
        if empty or better(k, found_key):
            found, found_key, empty = x, k, False
    if empty:
        if default is MISSING:
            raise ValueError(of_nothing)
        return default
    return found


def max_(*args, key=None, default=MISSING):
    return best(args, key, default, operator.gt, OF_NOTHING[0])


def min_(*args, key=None, default=MISSING):
    return best(args, key, default, operator.lt, OF_NOTHING[1])


def best_tensor(better, where, found, *others):
    """Return what ``best`` of several arguments returns, chosen by elements: a tensor if one was compared."""
    for x in others:
        chosen = better(x, found)
        found = where(chosen, x, found) if isinstance(chosen, Tensor) else x if chosen else found
    return found


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


def iter_(function, sentinel):
    while True:
        x = function()
        if x == sentinel:
            return
        yield x


def by_index(items):
    k = 0
    while True:
        try:
            x = items[k]
        except (IndexError, StopIteration):
            return
        yield x
        k += 1


def reversed_by_index(items, length):
    """``reversed(items)`` of a class with ``__getitem__``, starting at the last of ``length`` items."""
    for k in range(length - 1, -1, -1):
        try:
            x = items[k]
        except (IndexError, StopIteration):
            return
        yield x


def attribute_or(owner, name, default):
    try:
        return getattr(owner, name)
    except AttributeError:
        return default


def has_attribute(owner, name):
    try:
        getattr(owner, name)
    except AttributeError:
        return False
    return True


def intercepted(hook, fallback, owner, name):
    try:
        return hook(owner, name)
    except AttributeError:
        return fallback(owner, name)


IMMUTABLE = (int, float, complex, bool, str, bytes, type(None), type(...), range, type, type(len), type(lambda: 0))


def copied(x):
    kind = type(x)
    if kind in IMMUTABLE or kind is tuple or kind is frozenset:
        return x
    if kind is list or kind is dict or kind is set:
        return x.copy()
    return reconstructed(x, None)


def deeply_copied(x, memo):
    kind = type(x)
    if kind in IMMUTABLE or isinstance(x, type):
        return x
    memo = {} if memo is None else memo
    if id(x) in memo:
        return memo[id(x)]
    if isinstance(x, Tensor):
        made = memo[id(x)] = tensor_copied(x)
        return made
    if kind is list:
        made = memo[id(x)] = []
        for y in x:
            made.append(deeply_copied(y, memo))
        return made
    if kind is tuple:
        made = memo[id(x)] = tuple([deeply_copied(y, memo) for y in x])
        return made
    if kind is dict:
        made = memo[id(x)] = {}
        for k, v in x.items():
            made[deeply_copied(k, memo)] = deeply_copied(v, memo)
        return made
    return reconstructed(x, memo)


def tensor_copied(tensor):
    """Return a copy of a tensor; answered by the capture component."""


def check_plain(kind):
    """Break if a class customizes copies of its objects; answered by the capture component."""


def reconstructed(x, memo):
    kind = type(x)
    check_plain(kind)
    made = kind.__new__(kind)
    if memo is not None:
        memo[id(x)] = made
    for name, value in x.__dict__.items():
        made.__dict__[name] = value if memo is None else deeply_copied(value, memo)
    return made


UNSUPPORTED = "unsupported "


def operated(first, second, a, b, otherwise):
    for method, x, y in ((first, a, b), (second, b, a)):
        if method is not None:
            result = method(x, y)
            if result is not NotImplemented:
                return result
    return without_method(a, b, otherwise)


def operated_reflected(first, second, a, b, otherwise):
    for method, x, y in ((second, b, a), (first, a, b)):
        if method is not None:
            result = method(x, y)
            if result is not NotImplemented:
                return result
    return without_method(a, b, otherwise)


def without_method(a, b, symbol):
    if symbol == "==":
        return a is b
    if symbol == "!=":
        return a is not b
    names = type(a).__name__, type(b).__name__
    if symbol.startswith(UNSUPPORTED):
        raise TypeError(
            f"unsupported operand type(s) for {symbol.removeprefix(UNSUPPORTED)}: {names[0]!r} and {names[1]!r}")
    raise TypeError(f"{symbol!r} not supported between instances of {names[0]!r} and {names[1]!r}")


def differing(a, b):
    return not a == b


def count_elements(mapping, iterable):
    for x in iterable:
        mapping[x] = mapping.get(x, 0) + 1


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


def no_container(cls):
    """Raise the error of ``in`` for an object that is not iterable; answered by the capture component."""


def contains_by_iterating(items, x):
    try:
        iterator = iter(items)
    except TypeError:
        no_container(type(items))
    return contains(iterator, x)


def quiet(*filters):
    """Return or set the warning filters within compiled code; answered by the capture component."""


class CaughtWarnings:
    """``warnings.catch_warnings()``; ``record``: collect warnings in a list."""

    def __init__(self, record=False):
        self.record = record

    def __enter__(self):
        self.before = quiet()
        if self.record:
            quiet(self.before, None)  # a warning in the block breaks the graph
            return []

    def __exit__(self, *error):
        quiet(self.before)


def lacks(owner, item):
    found = item in owner
    return not found


def held_(what, outer, one):
    """Return only the restored part of the thread's state, so that nothing else is assumed."""
    return (what, mine.grad if what & scopes.GRAD else None, mine.inference if what & scopes.INFERENCE else None,
            mine.autocast if what & scopes.AUTOCAST else None,
            mine.plain if what & scopes.PLAIN else None, mine.packing if what & scopes.PACKING else None,
            mine.stack if what & scopes.STACK else None,
            mine.modes if what & scopes.MODES else None, one, mine.hooks if what & scopes.HOOKS else None, outer)


def left(scope, kind=None, error=None, trace=None):
    """``Leaving.call``."""
    was = scope.outer
    what = was[0]
    scope.outer = was[10]
    if what & scopes.ON_ERROR and kind is None:
        return
    if what & scopes.GRAD:
        mine.grad = was[1]
    if what & scopes.INFERENCE:
        mine.inference = was[2]
    if what & scopes.AUTOCAST:
        mine.autocast = was[3]
    if what & scopes.PLAIN:
        mine.plain = was[4]
    if what & scopes.PACKING:
        mine.packing = was[5]
    if what & scopes.STACK:
        mine.stack = was[6]
    if what & scopes.MODES:
        mine.modes = was[7]
    if what & scopes.HOOKS:
        mine.hooks = was[9]
    if what & (scopes.PUSHED | scopes.WATCHING):
        raise NotImplementedError("interpreters and modes are not entered in compiled code")
    if scope.after is not None:
        scope.after()


POLYFILLS = {held: held_, all: all_, any: any_, sum: sum_, map: map_, filter: filter_, max: max_, min: min_,
             sorted: sorted_, functools.reduce: reduce_,
             itertools.chain: chain, itertools.islice: islice, itertools.product: product, itertools.repeat: repeat,
             itertools.count: count,
             itertools.accumulate: accumulate, itertools.pairwise: pairwise, itertools.starmap: starmap,
             itertools.takewhile: takewhile,
             itertools.dropwhile: dropwhile, itertools.zip_longest: zip_longest, itertools.permutations: permutations,
             itertools.cycle: cycle,
             itertools.combinations_with_replacement: combinations_with_replacement, itertools.compress: compress,
             itertools.filterfalse: filterfalse,
             itertools.groupby: groupby, itertools.tee: tee, itertools.combinations: combinations, zip: zip_,
             enumerate: enumerate_}


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


def fill(mapping, *others, **named):
    """``OrderedDict.__init__`` of a class with a custom ``__setitem__``."""
    for other in others:
        for k, v in as_pairs(other) if hasattr(other, "keys") else other:
            mapping[k] = v
    for k in named:
        mapping[k] = named[k]


def itself(function):
    """``compile(**options)`` within compiled code, as a decorator."""
    return function


FILES = __file__, polyfills_of_itertools.__file__
