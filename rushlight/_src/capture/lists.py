"""Methods of lists, tuples and deques."""
from __future__ import annotations

import collections
import operator

from ..core.meta import Size
from . import polyfills
from .containers import LISTS
from .errors import Break
from .parts import METHODS, Part
from .values import Constant, IteratorValue, Sequence


class Lists(Part, part="lists"):
    """Capture component for sequences."""

    needs = "arithmetic", "calls", "containers", "protocols", "values", "writes"

    def like(self, owner):
        """Return a sequence of the same kind and length, which raises the same errors."""
        return Constant(owner.kind(range(len(owner.items))) if owner.kind in LISTS else tuple(range(len(owner.items))))

    def subscript_sequence(self, owner, index):
        at = self.values.known(self.protocols.index_of(index))
        if isinstance(at, slice):
            found = self.containers.items_of(owner)[at]
            return Sequence(owner.kind if owner.kind in LISTS else tuple, found)
        try:
            return self.containers.item(owner, at)
        except (IndexError, TypeError):
            return self.arithmetic.fold(operator.getitem, [self.like(owner), Constant(at)])

    def store_item(self, owner, at, value):
        items = self.containers.expanded(value) if isinstance(at, slice) else value
        try:
            changed = list(owner.items)
            changed[at] = items
        except (IndexError, TypeError, ValueError):
            return self.arithmetic.fold(operator.setitem, [self.like(owner), Constant(at), Constant(items)])
        self.writes.mark(owner)
        owner.items[:] = changed

    @METHODS.by((Sequence, "__len__"))
    def list_len(self, owner):
        return Constant(len(owner.items))

    @METHODS.by((Sequence, "__getitem__"))
    def list_getitem(self, owner, index):
        return self.subscript_sequence(owner, index)

    @METHODS.by((Sequence, "__setitem__"))
    def list_setitem(self, owner, index, value):
        self.store_item(owner, self.values.known(index), value)
        return Constant(None)

    @METHODS.by((Sequence, "__iter__"))
    def list_iter(self, owner):
        return IteratorValue(owner)

    @METHODS.by((Sequence, "__contains__"))
    def list_contains(self, owner, item):
        return self.containers.contains(owner, item)

    @METHODS.by((Sequence, "numel"))
    def list_numel(self, owner):
        return self.arithmetic.fold(lambda s: Size(s).numel(), [owner])

    @METHODS.by((Sequence, "append"))
    def list_append(self, owner, item):
        self.writes.mark(owner)
        owner.items.append(item)
        if owner.limit is not None and len(owner.items) > owner.limit:
            del owner.items[0]
        return Constant(None)

    @METHODS.by((Sequence, "appendleft"))
    def list_appendleft(self, owner, item):
        self.writes.mark(owner)
        owner.items.insert(0, item)
        if owner.limit is not None and len(owner.items) > owner.limit:
            del owner.items[-1]
        return Constant(None)

    @METHODS.by((Sequence, "extend"))
    def list_extend(self, owner, items):
        found = self.containers.expanded(items)
        for one in found:
            self.list_append(owner, one)
        return Constant(None)

    @METHODS.by((Sequence, "insert"))
    def list_insert(self, owner, at, item):
        at = self.values.known(at)
        self.writes.mark(owner)
        owner.items.insert(at, item)
        return Constant(None)

    @METHODS.by((Sequence, "pop"))
    def list_pop(self, owner, at=Constant(-1)):
        at = self.values.known(at)
        if type(at) is not int or not -len(owner.items) <= at < len(owner.items):
            return self.arithmetic.fold(owner.kind.pop,
                                        [self.like(owner), *([Constant(at)] if owner.kind is list else [])])
        found = self.containers.item(owner, at)
        self.writes.mark(owner)
        del owner.items[at]
        return found

    @METHODS.by((Sequence, "popleft"))
    def list_popleft(self, owner):
        return self.list_pop(owner, Constant(0))

    @METHODS.by((Sequence, "clear"))
    def list_clear(self, owner):
        self.writes.mark(owner)
        owner.items.clear()
        return Constant(None)

    @METHODS.by((Sequence, "copy"))
    def list_copy(self, owner):
        made = Sequence(owner.kind, self.containers.items_of(owner))
        made.limit = owner.limit
        return made

    @METHODS.by((Sequence, "reverse"))
    def list_reverse(self, owner):
        items = self.containers.items_of(owner)
        self.writes.mark(owner)
        owner.items[:] = items[::-1]
        return Constant(None)

    @METHODS.by((Sequence, "sort"))
    def list_sort(self, owner, **options):
        return self.calls.call_python(polyfills.sort_, [owner], options)

    @METHODS.by((Sequence, "index"))
    def list_index(self, owner, item, *bounds):
        low, high, _ = slice(*map(self.values.known, bounds),
                             *(None,) * (2 - len(bounds))).indices(len(owner.items)) if bounds else (
                                 0, len(owner.items), 1)
        if len(bounds) == 1:
            low, high = range(len(owner.items))[self.values.known(bounds[0]):].start, len(owner.items)
        for k, one in list(enumerate(self.containers.items_of(owner)))[low:high]:
            if self.arithmetic.matches(one, item):
                return Constant(k)
        item = self.values.force(item)
        if not isinstance(item, Constant):
            raise Break("RB007", "index() of a missing item")
        return self.arithmetic.fold(owner.kind.index, [Constant(owner.kind()), item])

    @METHODS.by((Sequence, "count"))
    def list_count(self, owner, item):
        return Constant(sum(self.arithmetic.matches(one, item) for one in self.containers.items_of(owner)))

    @METHODS.by((Sequence, "remove"))
    def list_remove(self, owner, item):
        for at, one in enumerate(self.containers.items_of(owner)):
            if self.arithmetic.matches(one, item):
                self.writes.mark(owner)
                del owner.items[at]
                return Constant(None)
        if not isinstance(self.values.force(item), Constant):
            raise Break("RB007", "remove() of a missing item")
        return self.arithmetic.fold(owner.kind.remove, [Constant(owner.kind()), item])

    @METHODS.by((Sequence, "rotate"))
    def list_rotate(self, owner, steps=Constant(1)):
        turned = collections.deque(self.containers.items_of(owner))
        turned.rotate(self.values.known(steps))
        self.writes.mark(owner)
        owner.items[:] = turned
        return Constant(None)

    @METHODS.by((Sequence, "extendleft"))
    def list_extendleft(self, owner, items):
        for one in self.containers.expanded(items):
            self.list_appendleft(owner, one)
        return Constant(None)
