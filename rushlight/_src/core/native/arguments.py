"""The arguments of a call: all as a tuple, and its tensors by number."""
from __future__ import annotations

from .language import Args, cast, filled, i64, native, new_tuple, tuple_set
from .objects import Tensor


@native
def collect(args: Args) -> tuple:
    """The arguments as a tuple."""
    count = len(args)
    out = new_tuple(count)
    for k in range(count):
        tuple_set(out, k, args[k])
    return filled(out)


@native
def storages_of(args: Args) -> tuple:
    """The storages of the tensors among the arguments, looking into lists; for each list a tuple of its own."""
    count = len(args)
    out = new_tuple(count)
    for k in range(count):
        argument = args[k]
        kind = type(argument)
        found: object = None
        if isinstance(argument, Tensor):
            found = cast(Tensor, argument)._rush_storage
        elif kind is list or kind is tuple:
            found = storages_within(argument)
        tuple_set(out, k, found)
    return filled(out)


@native
def storages_within(values: object) -> tuple:
    """The storage of each tensor in a list or tuple, None for anything else there."""
    count: i64 = len(values)
    out = new_tuple(count)
    for k in range(count):
        element = values[k]
        found: object = None
        if isinstance(element, Tensor):
            found = cast(Tensor, element)._rush_storage
        tuple_set(out, k, found)
    return filled(out)


@native
def tensor_argument(args: Args, index: i64) -> object:
    """The ``index``-th tensor among the arguments, looking into lists."""
    count = len(args)
    for k in range(count):
        argument = args[k]
        kind = type(argument)
        if isinstance(argument, Tensor):
            if index == 0:
                return argument
            index -= 1
        elif kind is list or kind is tuple:
            inner: i64 = len(argument)
            for j in range(inner):
                element = argument[j]
                if isinstance(element, Tensor):
                    if index == 0:
                        return element
                    index -= 1
    return None
