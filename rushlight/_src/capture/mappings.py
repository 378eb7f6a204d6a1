"""Methods of dicts and their views."""
from __future__ import annotations

import collections
import operator

from .classes import ABSENT, static
from .containers import raised
from .parts import METHODS, Part
from .polyfills import as_pairs
from .values import (Comparison, Constant, Identity, Instance, Key, Lazy, Mapping, Namespace, Object,
                     Sequence, TensorValue, View)


class Mappings(Part, part="mappings"):
    """Capture component for dicts."""

    needs = ("arithmetic", "classes", "containers", "guarding", "iterators", "outside", "protocols", "sets",
             "values", "writes")

    def __init__(self, machine):
        super().__init__(machine)
        self.keyed: list = []  # tensors from outside that are keys

    def lookup(self, mapping, key):
        found = mapping.items[key]
        if type(found) in (Lazy, Comparison):
            found = mapping.items[key] = self.values.force(found)
        return found

    def key(self, value, probe={}.__contains__):
        """Return a dict key: a known value, or an object that is its own key.  ``probe`` raises Python's error for an
        unhashable value, which names the operation."""
        value = self.values.force(value)
        self.outside.pin(value)
        if isinstance(value, Object) and type(value.value).__hash__ is object.__hash__:
            self.guarding.identify(value.source, value.value)
            return value.value
        if isinstance(value, Sequence) and value.kind is tuple:
            return tuple(self.key(item, probe) for item in self.containers.items_of(value))
        if isinstance(value, TensorValue) and value.source is not None and "tensors as keys" in self.machine.rules:
            self.guarding.identify(value.source, value.real)
            return value.real
        if isinstance(value, TensorValue):
            self.told_apart(value)
            return Key(value, id(value), operator.is_)
        if isinstance(value, Identity):
            return Key(value, id(value.of), lambda a, b: a.of is b.of)
        if isinstance(value, Instance):
            found = self.classes.class_attribute(value.cls, "__hash__")
            if found:
                return Key(value, self.values.known(self.protocols.now_answered("__hash__", found, value)),
                           self.arithmetic.matches)
            if value.cls.__hash__ is object.__hash__:
                return Key(value, id(value), operator.is_)
        known = self.values.known(value)
        self.arithmetic.fold(probe, [Constant(known)])
        return known

    def told_apart(self, value):
        """Assume that a key tensor from outside differs from all earlier keys."""
        if value.source is None or value in self.keyed:
            return
        for other in self.keyed:
            self.arithmetic.identical(value, other)
        self.keyed.append(value)

    def subscript_mapping(self, owner, key):
        if key in owner.items:
            return self.lookup(owner, key)
        if owner.kind is collections.defaultdict and owner.factory is not None:
            made = self.machine.now(owner.factory, [])
            self.writes.mark(owner)
            owner.items[key] = made
            return made
        raise raised(KeyError, key)

    @METHODS.by((Mapping, "__len__"))
    def dict_len(self, owner):
        return Constant(len(owner.items))

    @METHODS.by((Mapping, "__getitem__"))
    def dict_getitem(self, owner, key):
        return self.subscript_mapping(owner, self.key(key))

    @METHODS.by((Mapping, "__setitem__"))
    def dict_setitem(self, owner, key, value):
        self.containers.store_subscript(owner, key, value)
        return Constant(None)

    @METHODS.by((Mapping, "__delitem__"))
    def dict_delitem(self, owner, key):
        self.containers.delete_subscript(owner, key)
        return Constant(None)

    @METHODS.by((Mapping, "__contains__"))
    def dict_contains(self, owner, key):
        return Constant(self.key(key) in owner.items)

    @METHODS.by((Mapping, "__iter__"))
    def dict_iter(self, owner):
        return self.iterators.iterator(owner)

    @METHODS.by((Mapping, "__reversed__"))
    def dict_reversed(self, owner):
        return self.iterators.reverse_iterator(owner)

    @METHODS.by((Mapping, "keys"))
    def dict_keys(self, owner):
        return View(owner, "keys")

    @METHODS.by((Mapping, "values"))
    def dict_values(self, owner):
        return View(owner, "values")

    @METHODS.by((Mapping, "items"))
    def dict_items(self, owner):
        return View(owner, "items")

    def viewed(self, view):
        """Return the elements of a view of a dict."""
        mapping, part = view.mapping, view.part
        if part == "keys":
            return [self.values.from_python(k) for k in mapping.items]
        values = [self.lookup(mapping, k) for k in mapping.items]
        return values if part == "values" else [Sequence(tuple, [self.values.from_python(k), v])
                                                for k, v in zip(mapping.items, values)]

    @METHODS.by((View, "__len__"))
    def view_len(self, owner):
        return Constant(len(owner.mapping.items))

    @METHODS.by((View, "__iter__"))
    def view_iter(self, owner):
        return self.iterators.iterator(owner)

    @METHODS.by((View, "__contains__"))
    def view_contains(self, owner, item):
        return self.containers.contains(owner, item)

    @METHODS.by((View, "isdisjoint"))
    def view_isdisjoint(self, owner, other):
        return self.sets.set_isdisjoint(self.sets.set_of(owner), other)

    @METHODS.by((Mapping, "get"))
    def dict_get(self, owner, key, default=Constant(None)):
        key = self.key(key)
        return self.lookup(owner, key) if key in owner.items else default

    @METHODS.by((Mapping, "pop"))
    def dict_pop(self, owner, key, default=None):
        key = self.key(key)
        if key not in owner.items:
            if default is None:
                raise raised(KeyError, key)
            return default
        found = self.lookup(owner, key)
        self.writes.mark(owner)
        del owner.items[key]
        return found

    @METHODS.by((Mapping, "popitem"))
    def dict_popitem(self, owner, last=Constant(True)):
        if not owner.items:
            return self.arithmetic.fold(owner.kind.popitem, [Constant(owner.kind())])
        key = list(owner.items)[-1 if self.values.known(last) else 0]
        return Sequence(tuple, [self.values.from_python(key), self.dict_pop(owner, self.values.from_python(key))])

    @METHODS.by((Mapping, "setdefault"))
    def dict_setdefault(self, owner, key, default=Constant(None)):
        key = self.key(key)
        if key not in owner.items:
            self.writes.mark(owner)
            owner.items[key] = default
        return self.lookup(owner, key)

    def pairs_of(self, other):
        """Return the source of a dict update: a dict as it is stored, unless its class customizes iteration; the items
        of another mapping; else an iterable of pairs."""
        whole, inner = self.values.force(other), self.containers.as_container(other)
        if not self.classes.user_class(whole):
            return inner
        cls = self.classes.class_of(whole)
        if isinstance(inner, Mapping) and (static(cls, "__iter__") is static(dict, "__iter__") or not any(
                self.protocols.has(whole, name) for name in ("__iter__", "__getitem__", "keys"))):
            return inner
        if static(cls, "keys") is ABSENT:
            return whole
        return self.machine.now(self.values.from_python(as_pairs), [whole])

    @METHODS.by((Mapping, "update"))
    def dict_update(self, owner, other=None, /, **named):
        added = dict(named)
        if other is not None:
            other = self.pairs_of(other)
            if isinstance(other, Mapping):
                added = {**{k: self.lookup(other, k) for k in other.items}, **added}
            else:
                pairs = [self.containers.expanded(pair) for pair in self.containers.expanded(other)]
                added = {**{self.key(k): v for k, v in pairs}, **added}
        if isinstance(owner, Namespace):
            for name, value in added.items():
                self.writes.put(owner.owner, name, value, True)
        else:
            self.writes.mark(owner)
        owner.items.update(added)
        return Constant(None)

    @METHODS.by((Mapping, "clear"))
    def dict_clear(self, owner):
        self.writes.mark(owner)
        owner.items.clear()
        return Constant(None)

    @METHODS.by((Mapping, "copy"))
    def dict_copy(self, owner):
        return Mapping(dict(owner.items), None, owner.kind, owner.factory)

    @METHODS.by((Mapping, "move_to_end"))
    def dict_move_to_end(self, owner, key, last=Constant(True)):
        key, last = self.key(key), self.values.known(last)
        self.writes.mark(owner)
        found = owner.items.pop(key)
        items = {**owner.items, key: found} if last else {key: found, **owner.items}
        owner.items.clear()
        owner.items.update(items)
        return Constant(None)
