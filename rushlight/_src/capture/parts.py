"""Components of the bytecode interpreter, which declare the components they need and the keys they handle."""
from __future__ import annotations

import functools


class Table:
    """Methods of components by key: instructions, functions that a program calls, classes of values."""

    def __init__(self, what: str):
        self.what = what
        self.entries: dict = {}  # key -> (name of the component, name of the method, whether it gets the key first)

    def by(self, *keys, told=False):
        """Register the method below for some keys; ``told``: the key is its first argument."""
        def registered(method):
            method.__dict__.setdefault("answers", []).append((self, keys, told))
            return method

        return registered

    def enter(self, key, entry):
        if self.entries.setdefault(key, entry) != entry:
            raise KeyError(f"two components handle {self.what} {key!r}: {self.entries[key][:2]} and {entry[:2]}")

    def find(self, owner, key):
        """Return the method of an owner's component that handles a key; None if there is none."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        part, method, told = entry
        found = getattr(getattr(owner, part) if part else owner, method)
        return functools.partial(found, key) if told else found


class Bound(dict):
    """Key -> the method of an owner's components that handles it, or None; each is looked up once."""

    def __init__(self, table: Table, owner):
        self.table, self.owner = table, owner

    def __missing__(self, key):
        found = self[key] = self.table.find(self.owner, key)
        return found


class OfClass(Bound):
    """Class -> the method that handles it, or the nearest of its bases with one; None if there is none."""

    def __missing__(self, kind):
        found = self[kind] = next(filter(None, (self.table.find(self.owner, base) for base in kind.__mro__)), None)
        return found


class Part:
    """A component.  ``part``: its name; ``needs``: the names of the components that it uses, which become attributes
    once all are made."""

    part = ""
    needs: tuple = ()

    def __init_subclass__(cls, part="", **options):
        super().__init_subclass__(**options)
        cls.part = part
        for name, method in vars(cls).items():
            for table, keys, told in getattr(method, "answers", ()):
                for key in keys:
                    table.enter(key, (part, name, told))

    def __init__(self, machine):
        self.machine = machine

    def connect(self):
        for name in self.needs:
            setattr(self, name, getattr(self.machine, name))


INSTRUCTIONS = Table("instruction")
BREAKS = Table("a break at instruction")
CALLED = Table("a call of")
VALUES_CALLED = Table("a call of a value of class")
OBJECTS_CALLED = Table("a call of an object of class")
ATTRIBUTES = Table("attributes of")
METHODS = Table("method")
