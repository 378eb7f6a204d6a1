"""Functions that a segment's Python code calls to replay side effects."""
from __future__ import annotations

import functools
import operator
import types
from collections import OrderedDict

from ...nested.ragged import Ragged
from ...nested.tensor import made as nested
from ...nn.parameter import Parameter
from ..autograd.node import Handle
from ..autograd.program import ended, spent
from ..core.interpret import recording
from ..core.overriding import DisableTorchFunctionSubclass, as_subclass
from .arithmetic import INPLACE
from .output import logged, warned
from .protocols import unpacker
from .wrapper_specs import close_parts, open_part

END = object()


def iterator_at(items, position, turned=False):
    """Return an iterator over an iterable, advanced to a position."""
    made = reversed(items) if turned else iter(items)
    for _ in range(position):
        next(made)
    return made


def place(iterator, items, position):
    """Set a list's iterator to a position, which may be behind the end of a list that has become shorter."""
    short = max(0, position + 1 - len(items))
    items.extend([None] * short)  # __setstate__ clamps the position to the length
    iterator.__setstate__(position)
    del items[len(items) - short:]


def unpacked(value, count):
    """``a, b, c = value`` for ``count`` targets, as a list."""
    return unpacker(count)(value)


def traced(error):
    """Give an exception a traceback, which CPython's handlers need."""
    try:
        raise error
    except BaseException as caught:
        caught.__context__ = None


def store_item(owner, index, value):
    owner[index] = value


def delete_item(owner, index):
    del owner[index]


def refill(mapping, items):
    """Give a dict from outside its new contents, bypassing its class's methods."""
    base = OrderedDict if isinstance(mapping, OrderedDict) else dict  # which has its own order
    base.clear(mapping)
    for key, value in items.items():
        base.__setitem__(mapping, key, value)


def reset(container, gone, new):
    """Remove items from and add items to a set from outside."""
    container.difference_update(gone)
    container.update(new)


def remove_attribute(owner, name):
    """Delete an attribute that existed before the program ran."""
    if hasattr(owner, name):
        object.__delattr__(owner, name)


def made(cls, new, attributes):
    """Set the attributes of an object that the program made."""
    for name, value in attributes.items():
        object.__setattr__(new, name, value)
    return new


def plainly(graph, *values):
    """Call a graph on tensors of any classes."""
    with DisableTorchFunctionSubclass():
        return graph(*values)


def seen_as(tensor, cls):
    """Return a tensor as an instance of a class, without calling the class."""
    with DisableTorchFunctionSubclass():
        return as_subclass(tensor, cls)


def wrapped(cls, parts, context, size, stride):
    """Return an instance of a class that wraps tensors."""
    with DisableTorchFunctionSubclass():
        return cls.__tensor_unflatten__(parts, context, size, stride)


NAMES = {"logical_not": operator.not_, "FunctionType": types.FunctionType, "MethodType": types.MethodType,
         "CellType": types.CellType,
         "Partial": functools.partial,
         "ITERATOR": iterator_at, "PLACE": place, "UNPACK": unpacked, "TRACED": traced, "SET": store_item,
         "DELETE": delete_item, "REFILL": refill, "RESET": reset,
         "EVERY": slice(None), "DELATTR": remove_attribute, "INPLACE": INPLACE, "END": END, "GRAD": recording,
         "SETATTR": object.__setattr__,
         "SPENT": spent, "ENDED": ended, "PARAMETER": Parameter, "LOG": logged, "WARN": warned,
         "HANDLE": Handle, "PLAINLY": plainly, "SUBCLASS": seen_as,
         "WRAPPER": wrapped, "OPEN": open_part, "CLOSE": close_parts, "NESTED": nested, "RAGGED": Ragged}
