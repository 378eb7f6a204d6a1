"""Sets that keep the order in which elements came."""
from __future__ import annotations

from collections.abc import MutableSet, Reversible


__all__ = ["OrderedSet"]


class OrderedSet(MutableSet, Reversible):
    """A set in the order of insertion.

    >>> a = OrderedSet("cab")
    >>> a.add("b"); a | "d", a.pop()
    (OrderedSet(['c', 'a', 'b', 'd']), 'b')
    """

    __slots__ = ("_dict",)

    def __init__(self, iterable=None):
        self._dict = dict.fromkeys(() if iterable is None else iterable)

    def __contains__(self, elem):
        return elem in self._dict

    def __iter__(self):
        return iter(self._dict)

    def __reversed__(self):
        return reversed(self._dict)

    def __len__(self):
        return len(self._dict)

    def __repr__(self):
        return f"{type(self).__name__}({list(self._dict)})"

    def __getstate__(self):
        return list(self._dict)

    def __setstate__(self, state):
        self._dict = dict.fromkeys(state)

    def add(self, elem):
        self._dict[elem] = None

    def discard(self, elem):
        self._dict.pop(elem, None)

    def clear(self):
        self._dict.clear()

    def pop(self):
        """Takes the last element.  KeyError where there is none."""
        if not self._dict:
            raise KeyError("pop from an empty set")
        return self._dict.popitem()[0]

    def copy(self):
        return type(self)(self)

    def update(self, *others):
        for other in others:
            self._dict.update(dict.fromkeys(other))

    def union(self, *others):
        made = self.copy()
        made.update(*others)
        return made

    def intersection(self, *others):
        held = [set(other) for other in others]
        return type(self)(e for e in self if all(e in other for other in held))

    def difference(self, *others):
        held = [set(other) for other in others]
        return type(self)(e for e in self if not any(e in other for other in held))

    def symmetric_difference(self, other):
        return self ^ type(self)(other)

    def difference_update(self, *others):
        for other in others:
            for elem in list(other):
                self.discard(elem)

    def intersection_update(self, *others):
        self._dict = self.intersection(*others)._dict

    def issubset(self, other) -> bool:
        return all(map(set(other).__contains__, self))

    def issuperset(self, other) -> bool:
        return all(e in self for e in other)

    def __or__(self, other):
        return self.union(other)

    __ror__ = MutableSet.__ror__

    @classmethod
    def _from_iterable(cls, it):
        return cls(it)
