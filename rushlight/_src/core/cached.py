"""Attributes that are computed when they are first read, and tables of recently used values."""
from __future__ import annotations

import functools
import weakref

MISSING = object()
MOST_RECENT = 512  # of each of the two generations of a Recent


class cached_property(functools.cached_property):
    """``functools.cached_property`` without the lock that Python 3.11 holds while an attribute is computed, one for all
    instances: a fork could not take it, and two threads that hold each other's would wait for ever.  Threads that read
    an attribute at once may compute it twice."""

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        values = instance.__dict__
        value = values.get(self.attrname, MISSING)
        if value is MISSING:
            value = values.setdefault(self.attrname, self.func(instance))
        return value


class Recent(dict):
    """A dict that evicts entries that were not used lately. Lookup costs the same as in any dict: when it is full, all
    its entries become ``older``, and a miss that is found there is moved back (``again``)."""

    __slots__ = ("older", "__weakref__")
    tables: dict = {}  # id of each that lives: a weak reference

    def __init__(self):
        self.older, number, tables = {}, id(self), self.tables
        tables[number] = weakref.ref(self, lambda _: tables.pop(number, None))

    def enter(self, key, value):
        if len(self) >= MOST_RECENT:
            self.older = dict(self)
            super().clear()
        self[key] = value
        return value

    def again(self, key):
        """The value of a key that is among the older ones, or None."""
        found = self.older.pop(key, None)
        return None if found is None else self.enter(key, found)

    def clear(self):
        super().clear()
        self.older = {}
