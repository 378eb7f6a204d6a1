"""Modules whose names are settings: assign to them, or ``patch`` them for a block."""
from __future__ import annotations

import contextlib
import difflib
import types


class Configuration(types.ModuleType):
    """A module of settings.  AttributeError for a name that it does not have."""

    def __setattr__(self, name, value):
        if not name.startswith("__") and not hasattr(self, name):
            near = difflib.get_close_matches(name, {*vars(self), *vars(type(self))}, 1)
            raise AttributeError(f"torch.{self.__name__.partition('.')[2]} has no setting {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))
        super().__setattr__(name, value)

    def patch(self, changes=None, value=None, **more):
        """Changes settings for a ``with`` block, or for the calls of a decorated function; ``"triton.cudagraphs"`` names one within a group."""
        changes = {changes: value} if isinstance(changes, str) else dict(changes or {})
        return Patched(self, {**changes, **more})


class Steered:
    """A setting whose value is an attribute of ``owner``: ``write`` turns what users say into it, ``read`` back."""

    def __init__(self, owner, attribute: str, text: str, write=lambda value: value, read=lambda value: value):
        self.owner, self.attribute, self.__doc__, self.write, self.read = owner, attribute, text, write, read

    def __get__(self, config, kind=None):
        return self if config is None else self.read(getattr(self.owner, self.attribute))

    def __set__(self, config, value):
        setattr(self.owner, self.attribute, self.write(value))


class Group(types.SimpleNamespace):
    """Settings under one name."""


class Patched(contextlib.ContextDecorator):
    """Settings changed for a block."""

    def __init__(self, config, changes):
        self.places, self.before = [(*owner_of(config, name), value) for name, value in changes.items()], []

    def __enter__(self):
        self.before.append([getattr(owner, name) for owner, name, _ in self.places])
        for owner, name, value in self.places:
            setattr(owner, name, value)
        return self

    def __exit__(self, *exception):
        for (owner, name, _), value in zip(self.places, self.before.pop()):
            setattr(owner, name, value)


def owner_of(config, path):
    """(what has a setting, its last name).  AttributeError where there is none."""
    *groups, name = path.split(".")
    owner = config
    for group in groups:
        owner = getattr(owner, group)
    if not hasattr(owner, name):
        raise AttributeError(f"torch.{config.__name__.partition('.')[2]} has no setting {path!r}")
    return owner, name
