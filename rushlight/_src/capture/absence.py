"""Absence: a look-up that does not find a name in a class, an instance, a module or a namespace assumes that it stays
absent."""
from __future__ import annotations

import builtins

from ...nn.modules.module import Module
from .classes import ABSENT, is_framework, is_written_by_users, static, takes_attributes
from .errors import Break
from .parts import Part
from .values import Object, Source


def is_unset(slot, owner) -> bool:
    """True if a slot of an object has no value."""
    try:
        slot.__get__(owner, type(owner))
    except AttributeError:
        return True
    return False


class Absence(Part, part="absence"):
    """Capture component that looks names up, and guards the holders that did not have them."""

    needs = "guarding", "outside", "writes"

    def __init__(self, machine):
        super().__init__(machine)
        self.passed: set = set()  # arguments of ``pass_over``: each attribute that is read passes over some classes

    def place(self, holder, attribute="__dict__") -> Source:
        """Return the source of the dict of a class or Python module, which no epoch covers."""
        return Source(None, self.guarding.constant_name(holder)).attribute(attribute)

    def lack(self, name, source):
        """Guard that the dict at a source does not have a name."""
        self.guarding.guard(f"{self.guarding.literal(name)} not in {{0}}", source)

    # --- classes ------------------------------------------------------------------------------------------------------
    def find(self, cls, name):
        """Return the raw class attribute, or ABSENT; guards the users' classes that come before its holder."""
        for base in cls.__mro__:
            if name in base.__dict__:
                return base.__dict__[name]
            self.pass_over(cls, base, name, is_written_by_users)
        return ABSENT

    def find_after(self, mro, start, name):
        """Return the first class after ``start`` that has an attribute, as ``super()`` looks; None if there is none."""
        for base in mro[mro.index(start) + 1:]:
            if name in base.__dict__:
                return base
            self.pass_over(mro[0], base, name, takes_attributes)
        return None

    def pass_over(self, cls, base, name, is_guarded):
        """Guard that a base of a class does not have an attribute."""
        look_up = cls, base, name, is_guarded
        if look_up in self.passed:
            return
        self.passed.add(look_up)
        if is_guarded(base):
            self.lack(name, self.place(base))
            self.keep_bases(cls)

    def keep_bases(self, cls):
        """Guard the bases of a user's class, which can be replaced."""
        if is_written_by_users(cls):
            self.guarding.guard(f"{{0}} is {self.guarding.constant_name(cls.__mro__)}", self.place(cls, "__mro__"))

    def lack_in_class(self, cls, name):
        """Guard that no class among the bases has an attribute, since its absence was the answer."""
        if static(cls, name) is ABSENT:
            for base in cls.__mro__:
                self.pass_over(cls, base, name, takes_attributes)

    def descriptor_method(self, raw, name):
        """Return ``__get__`` or ``__set__`` of a class attribute's class, or ABSENT; guards that this stays."""
        kind = type(raw)
        if not is_written_by_users(kind):
            return static(kind, name)
        self.guarding.guard(f"type({self.guarding.constant_name(raw)}) is {self.guarding.constant_name(kind)}")
        found = self.find(kind, name)
        if found is ABSENT:
            self.lack_in_class(kind, name)
        self.guarding.rely(kind, name, found)
        return found

    def is_data_descriptor(self, raw) -> bool:
        """True if a class attribute takes precedence over instance attributes; guards that this stays."""
        return raw is not ABSENT and self.descriptor_method(raw, "__set__") is not ABSENT

    def check_stores(self, cls, name):
        """Break if the program itself set a special method of a class, or of one of its bases."""
        if name in self.writes.class_stores and any(
                (id(self.outside.wrapped.get(id(base))), name) in self.writes.set_attributes for base in cls.__mro__):
            raise Break("RB004", f"looking up {name!r} after it was set on a class")

    # --- objects ------------------------------------------------------------------------------------------------------
    def lack_in_object(self, owner, name):
        """Guard that the ``__dict__`` of an object from outside does not have an attribute."""
        place = getattr(owner.value, "__dict__", None) if isinstance(owner, Object) and owner.source is not None \
            else None
        if not isinstance(place, dict) or name in place:
            return
        if isinstance(owner.value, Module):  # its attributes move the epoch
            self.guarding.guard(f"{self.guarding.literal(name)} not in {{0}}.__dict__", owner.source)
        else:
            self.lack(name, owner.source.attribute("__dict__"))

    def lack_in_slot(self, owner, slot):
        """Guard that a slot of an object from outside has no value."""
        self.guarding.guard(f"{self.guarding.constant_name(is_unset)}({self.guarding.constant_name(slot)}, {{0}})",
                            Source(None, str(owner.source)))

    # --- namespaces ---------------------------------------------------------------------------------------------------
    def lack_in_namespace(self, namespace, name):
        """Guard that the globals of a module do not have a name."""
        if not is_framework(namespace.get("__name__")):
            self.lack(name, Source(None, self.guarding.constant_name(namespace)))

    def lack_in_module(self, module, name):
        """Guard that a Python module does not have an attribute, and that its ``__getattr__`` stays."""
        place = self.place(module)
        self.lack(name, place)
        kind = type(module)
        self.guarding.guard(f"type({self.guarding.constant_name(module)}) is {self.guarding.constant_name(kind)}")
        if "__getattr__" in module.__dict__:
            self.guarding.guard(f"{{0}} is {self.guarding.constant_name(module.__dict__['__getattr__'])}",
                                place.item("'__getattr__'"))
        else:
            self.lack("__getattr__", place)

    def find_builtin(self, namespace, name):
        """Return the builtin of a name that the globals do not have, or ABSENT."""
        self.lack_in_namespace(namespace, name)
        found = getattr(builtins, name, ABSENT)
        place = Source(None, self.guarding.constant_name(builtins.__dict__))
        if found is ABSENT:
            self.lack(name, place)
        elif not is_framework(namespace.get("__name__")):
            self.guarding.guard(f"{{0}} is {self.guarding.constant_name(found)}", place.item(repr(name)))
        return found
