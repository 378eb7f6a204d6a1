"""The keys of plans: the representation of values and lists in them, and the bits of tensors that require gradients."""
from __future__ import annotations

from .language import Args, cast, f64, filled, i64, native, new_tuple, tuple_set
from .memory import store_i64
from .objects import Tensor, state
from .history import joins

WORD = 60  # tensors whose gradient bits fit into one integer


@native
def exact(value: object) -> object:
    """The representation of a value in a key: equal only for values of one type and the same bits (``-0.0 == 0.0`` and
    ``True == 1``; NaN is none)."""
    kind = type(value)
    if kind is int or kind is str or value is None or kind in state.static_types:
        return value
    if kind is float:
        number: f64 = value
        return (kind, repr(value)) if number == 0.0 or number != number else (kind, value)
    if kind is complex:
        return (kind, repr(value))
    if kind is tuple or kind is list:
        count: i64 = len(value)
        parts = new_tuple(count)
        for k in range(count):
            tuple_set(parts, k, exact(value[k]))
        return filled(parts)
    return (kind, value)


@native
def list_key(items: object, values: i64, room: i64, most: i64, used: i64, mask: i64, bit: i64) -> object:
    """The key of a list argument; its tensors' addresses go to ``values``, at most ``most`` of them. None if the fast
    path can't take it. The counters come back in the last of the ``room`` slots of ``values``."""
    count: i64 = len(items)
    key = new_tuple(count)
    for k in range(count):
        element = items[k]
        kind = type(element)
        if kind is state.tensor or kind is state.parameter:
            if used >= most:
                return None
            tensor = cast(Tensor, element)
            tuple_set(key, k, tensor._rush_meta)
            store_i64(values, used, tensor._rush_storage.address + tensor._rush_offset * tensor.itemsize)
            if tensor._rush_needs_grad:
                mask |= bit
            elif tensor._base is not None:
                if joins(tensor):
                    mask |= bit
            bit = bit << 1
            used += 1
        elif kind is int or element is None or kind is str:
            tuple_set(key, k, element)
        elif kind is tuple or kind is list:
            inner = static_items(element)
            if inner is None:
                return None
            tuple_set(key, k, inner)
        else:
            return None
    store_i64(values, room - 1, used)
    store_i64(values, room - 2, mask)
    store_i64(values, room - 3, bit)
    return filled(key)


@native
def static_items(items: object) -> object:
    """The representation in a key of a sequence within a list argument; None if it does not consist of static
    parameters."""
    count: i64 = len(items)
    key = new_tuple(count)
    for k in range(count):
        element = items[k]
        kind = type(element)
        if kind is not int and element is not None and kind is not str:
            return None
        tuple_set(key, k, element)
    return filled(key)


@native
def value_count(args: Args) -> i64:
    """How many values the arguments give at most."""
    found = len(args)
    for k in range(len(args)):
        kind = type(args[k])
        if kind is list or kind is tuple:
            inner: i64 = len(args[k])
            found += inner
    return found


@native
def gradient_words(args: Args) -> list:
    """The gradient bits of the tensors among the arguments: integers of ``WORD`` bits."""
    words = []
    word = 0
    place = 0
    for k in range(len(args)):
        argument = args[k]
        kind = type(argument)
        inner = 1
        if kind is list or kind is tuple:
            inner = len(argument)
        for j in range(inner):
            element = argument
            if kind is list or kind is tuple:
                element = argument[j]
            if isinstance(element, Tensor):
                tensor = cast(Tensor, element)
                if tensor._rush_needs_grad != 0 or (tensor._base is not None and joins(tensor)):
                    word |= 1 << place
                place += 1
                if place == WORD:
                    words.append(word)
                    word = 0
                    place = 0
    words.append(word)
    return words
