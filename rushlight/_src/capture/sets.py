"""Methods of sets."""
from __future__ import annotations

from .containers import raised
from .parts import METHODS, Part
from .values import Constant, SetValue, View


class Sets(Part, part="sets"):
    """Capture component for sets."""

    needs = "arithmetic", "containers", "iterators", "mappings", "writes"

    def set_of(self, value):
        """Return a set, or a view of keys or items as one; other values unchanged."""
        value = self.containers.as_container(value)
        if isinstance(value, View) and value.part != "values":
            return SetValue(self.distinct(self.mappings.viewed(value)))
        return value

    def element(self, value):
        """Return the key of an element."""
        return self.mappings.key(value, set().__contains__)

    @METHODS.by((SetValue, "add"))
    def set_add(self, owner, item):
        key = self.element(item)
        self.writes.mark(owner)
        owner.items.setdefault(key, item)
        owner.order.add(key)
        return Constant(None)

    @METHODS.by((SetValue, "discard"))
    def set_discard(self, owner, item):
        key = self.element(item)
        self.writes.mark(owner)
        owner.items.pop(key, None)
        owner.order.discard(key)
        return Constant(None)

    @METHODS.by((SetValue, "remove"))
    def set_remove(self, owner, item):
        if self.element(item) not in owner.items:
            raise raised(KeyError, self.element(item))
        return self.set_discard(owner, item)

    @METHODS.by((SetValue, "update"))
    def set_update(self, owner, *others):
        found = [one for other in others for one in self.containers.expanded(other)]
        for one in found:
            self.set_add(owner, one)
        return Constant(None)

    @METHODS.by((SetValue, "pop"))
    def set_pop(self, owner):
        if not owner.items:
            return self.arithmetic.fold(set.pop, [Constant(set())])
        self.writes.mark(owner)
        return owner.items.pop(owner.order.pop())

    @METHODS.by((SetValue, "clear"))
    def set_clear(self, owner):
        self.writes.mark(owner)
        owner.items.clear()
        owner.order.clear()
        return Constant(None)

    @METHODS.by((SetValue, "copy"))
    def set_copy(self, owner):
        return SetValue(dict(owner.items), kind=owner.kind, order=set(owner.order))

    @METHODS.by((SetValue, "__contains__"))
    def set_contains(self, owner, item):
        return self.containers.contains(owner, item)

    @METHODS.by((SetValue, "__len__"))
    def set_len(self, owner):
        return Constant(len(owner.items))

    @METHODS.by((SetValue, "__iter__"))
    def set_iter(self, owner):
        return self.iterators.iterator(owner)

    def keys_of(self, iterable):
        return self.distinct(self.containers.expanded(iterable))

    def distinct(self, values):
        """Return values by their keys, the first of equal ones."""
        found = {}
        for value in values:
            found.setdefault(self.element(value), value)
        return found

    def set_operation(self, symbol, owner, others):
        made = self.set_copy(owner)
        for other in others:
            made = self.containers.container_binary(symbol, made, SetValue(self.keys_of(other)), False)
        return made

    @METHODS.by((SetValue, "union"))
    def set_union(self, owner, *others):
        return self.set_operation("|", owner, others)

    @METHODS.by((SetValue, "intersection"))
    def set_intersection(self, owner, *others):
        return self.set_operation("&", owner, others)

    @METHODS.by((SetValue, "difference"))
    def set_difference(self, owner, *others):
        return self.set_operation("-", owner, others)

    @METHODS.by((SetValue, "symmetric_difference"))
    def set_symmetric_difference(self, owner, other):
        return self.set_operation("^", owner, [other])

    @METHODS.by((SetValue, "issubset"))
    def set_issubset(self, owner, other):
        return Constant(set(owner.items) <= set(self.keys_of(other)))

    @METHODS.by((SetValue, "issuperset"))
    def set_issuperset(self, owner, other):
        return Constant(set(owner.items) >= set(self.keys_of(other)))

    @METHODS.by((SetValue, "isdisjoint"))
    def set_isdisjoint(self, owner, other):
        return Constant(set(owner.items).isdisjoint(self.keys_of(other)))
