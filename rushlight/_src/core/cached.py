"""Attributes that are computed when they are first read."""
from __future__ import annotations

import functools

MISSING = object()


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
