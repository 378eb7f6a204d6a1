"""Functions of dictionaries and sequences that leave what they are given as it is."""
from __future__ import annotations

import functools
import operator


def _kind(kwargs):
    factory = kwargs.pop("factory", dict)
    if kwargs:
        raise TypeError(f"unexpected keyword argument '{next(iter(kwargs))}'")
    return factory


def _several(dicts):
    return dicts[0] if len(dicts) == 1 and not hasattr(dicts[0], "keys") else dicts


def merge(*dicts, **kwargs):
    """Merge dictionaries; the last entry of a key wins.

    >>> merge({1: "a"}, {1: "b", 2: "c"})
    {1: 'b', 2: 'c'}
    """
    found = _kind(kwargs)()
    for one in _several(dicts):
        found.update(one)
    return found


def merge_with(func, *dicts, **kwargs):
    """A function of the list of the values of each key.

    >>> merge_with(sum, {1: 1}, {1: 10, 2: 5})
    {1: 11, 2: 5}
    """
    factory, values = _kind(kwargs), {}
    for one in _several(dicts):
        for key, value in one.items():
            values.setdefault(key, []).append(value)
    return valmap(func, values, factory)


def valmap(func, d, factory=dict):
    """A dictionary with a function of each value.

    >>> valmap(len, {"a": "xy"})
    {'a': 2}
    """
    return _made(factory, ((key, func(value)) for key, value in d.items()))


def keymap(func, d, factory=dict):
    """A dictionary with a function of each key."""
    return _made(factory, ((func(key), value) for key, value in d.items()))


def itemmap(func, d, factory=dict):
    """A dictionary with a function of each (key, value)."""
    return _made(factory, map(func, d.items()))


def valfilter(predicate, d, factory=dict):
    """The entries whose value satisfies something.

    >>> valfilter(bool, {1: 0, 2: 3})
    {2: 3}
    """
    return _made(factory, ((key, value) for key, value in d.items() if predicate(value)))


def keyfilter(predicate, d, factory=dict):
    """The entries whose key satisfies something."""
    return _made(factory, ((key, value) for key, value in d.items() if predicate(key)))


def itemfilter(predicate, d, factory=dict):
    """The entries that satisfy something, as (key, value)."""
    return _made(factory, (item for item in d.items() if predicate(item)))


def _made(factory, items):
    found = factory()
    for key, value in items:
        found[key] = value
    return found


def assoc(d, key, value, factory=dict):
    """A dictionary with one entry changed, or more.

    >>> assoc({1: 2}, 3, 4)
    {1: 2, 3: 4}
    """
    found = factory()
    found.update(d)
    found[key] = value
    return found


def dissoc(d, *keys, **kwargs):
    """A dictionary without some keys.

    >>> dissoc({1: 2, 3: 4}, 3, 5)
    {1: 2}
    """
    factory = _kind(kwargs)
    return _made(factory, ((key, value) for key, value in d.items() if key not in keys))


def assoc_in(d, keys, value, factory=dict):
    """A nested dictionary with the entry at a path of keys changed.

    >>> assoc_in({"a": {"b": 1}}, ["a", "c"], 2)
    {'a': {'b': 1, 'c': 2}}
    """
    return update_in(d, keys, lambda before: value, value, factory)


def update_in(d, keys, func, default=None, factory=dict):
    """A nested dictionary with a function of the entry at a path of keys, of ``default`` where there is none.

    >>> update_in({"a": {"b": 1}}, ["a", "b"], lambda x: x + 1)
    {'a': {'b': 2}}
    """
    key, *rest = keys
    found = factory()
    found.update(d)
    if rest:
        found[key] = update_in(d.get(key, factory()), rest, func, default, factory)
    else:
        found[key] = func(d[key]) if key in d else func(default)
    return found


def get_in(keys, coll, default=None, no_default=False):
    """The entry at a path of keys, ``default`` where there is none (the error, with ``no_default``).

    >>> get_in(["a", 0], {"a": [7]}), get_in(["b"], {}, 3)
    (7, 3)
    """
    try:
        return functools.reduce(operator.getitem, keys, coll)
    except (KeyError, IndexError, TypeError):
        if no_default:
            raise
        return default


def getter(index):
    """A function that gets an item, or a tuple of several.

    >>> getter(1)("ab"), getter([0])("ab"), getter([])("ab")
    ('b', ('a',), ())
    """
    if not isinstance(index, list):
        return operator.itemgetter(index)
    if len(index) == 1:
        return lambda x: (x[index[0]],)
    return operator.itemgetter(*index) if index else lambda x: ()


def groupby(key, seq) -> dict:
    """Lists of the elements with the same key: a function of them, or what gets it of them.

    >>> groupby(len, ["a", "bc", "d"])
    {1: ['a', 'd'], 2: ['bc']}
    """
    function, found = key if callable(key) else getter(key), {}
    for one in seq:
        found.setdefault(function(one), []).append(one)
    return found


def first(seq):
    """The first element."""
    return next(iter(seq))
