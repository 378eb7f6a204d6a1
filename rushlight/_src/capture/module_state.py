"""State of modules: which memory words change when objects found in modules change."""
from __future__ import annotations

import collections
import ctypes
import types

import numpy as np

from ...nested.tensor import Nested
from ...nn.modules.module import Module
from ..core import overriding
from ..core.native import Snapshot, Tensor
from ..core.native.compiler import layout
from ..core.native.dicts import word_of
from .classes import HEAP

# offset in bytes from an object to its dict's address, in classes whose dict the interpreter manages
MANAGED_DICT = -24
# types whose changes no memory word records, or only some of them
UNTOLD = (list, dict, set, collections.deque, np.ndarray, Nested)


def is_told(value) -> bool:
    """True if a value in a module cannot change, or a Snapshot detects its changes."""
    if isinstance(value, tuple):
        return not hasattr(value, "__dict__")
    return not isinstance(value, UNTOLD) and not (
        isinstance(value, Tensor) and overriding.kind_of(type(value)) & overriding.DISPATCH)


def is_told_table(table) -> bool:
    """True if a Snapshot detects every change of a dict; it misses a change of order."""
    return not isinstance(table, collections.OrderedDict) or len(table) < 2


def snapshot_of(parts):
    """Return a Snapshot of these objects, parents first: the classes and attributes of modules, the items of dicts, the
    metadata of tensors.  None if the interpreter has no such word for one of these."""
    found = Words()
    if layout.objection() is not None or not all(map(found.add, {id(part): part for part in parts}.values())):
        return None
    addresses = list(dict.fromkeys(found.addresses))
    words = np.zeros(2 * len(addresses) + len(found.tensors), np.int64)
    words[:2 * len(addresses):2] = addresses
    made = Snapshot()
    made.block = words, found.dicts
    made.words, made.count = words.ctypes.data, len(addresses)
    made.tensors, made.metas = tuple(found.tensors), [None] * len(found.tensors)
    return made


class Words:
    """Addresses of words that record changes, and the dicts and tensors that they belong to."""

    def __init__(self):
        self.addresses: list = []
        self.dicts: list = []
        self.tensors: list = []

    def add(self, part) -> bool:
        """Add the words that record an object's changes; False if there are none."""
        if isinstance(part, dict):
            return self.add_dict(part)
        is_module = isinstance(part, (Module, types.ModuleType))
        if isinstance(part, type) or not (is_module or type(part).__flags__ & HEAP):
            return True
        self.addresses.append(id(part) + layout.TYPE)
        if isinstance(part, Tensor):
            self.tensors.append(part)
        return self.add_attributes(part) if is_module else True

    def add_attributes(self, owner) -> bool:
        table, offset = owner.__dict__, type(owner).__dictoffset__
        places = [id(owner) + place for place in (MANAGED_DICT, offset) if place < 0 or place > layout.TYPE]
        place = next((p for p in places if ctypes.c_uint64.from_address(p).value == id(table)), None)
        if place is None:
            return False
        self.addresses.append(place)
        return self.add_dict(table)

    def add_dict(self, table) -> bool:
        word = word_of(table)
        self.addresses.append(word)
        self.dicts.append(table)
        return word != 0
