"""Modules whose names are settings: assign to them, or ``patch`` them for a block."""
from __future__ import annotations

import ast
import contextlib
import contextvars
import difflib
import types
from importlib import import_module

from .advice import warn
from .settings import settings


UNSET = object()  # a value that was not given: None is one of a setting's


class Configuration(types.ModuleType):
    """A module of settings.  Those that it does not define itself are PyTorch's (``compat/table.py``): they can be
    read, and a new value warns that nothing here heeds it.

    AttributeError for a name that PyTorch does not have, either.
    """

    def __init_subclass__(cls):
        """Properties of a module are settings, too."""
        for name, value in list(vars(cls).items()):
            if type(value) is property:
                setattr(cls, name, ComputedSetting(value.fget, value.fset, doc=value.__doc__))

    def __getattr__(self, name):
        return read(self, name)

    def __setattr__(self, name, value):
        if name.startswith("__") or name in vars(type(self)) or name in vars(self) and isinstance(vars(self)[name],
                                                                                                  types.ModuleType):
            super().__setattr__(name, value)
        else:
            write(self, name, value)

    def __delattr__(self, name):
        """Reset a setting: one that another module has, to its default there; else remove the value that was set."""
        kind, text = listed(self).get(name, (None, None))
        if kind == "from" and name not in vars(self) and name not in vars(type(self)):
            delattr(*elsewhere(text))
        else:
            super().__delattr__(name)

    def patch(self, arg1=None, arg2=UNSET, **kwargs):
        """Changes settings for a ``with`` block, or for the calls of a decorated function.

        ``patch("name", value)``, ``patch({"name": value})`` or ``patch(name=value)``; ``"triton.cudagraphs"`` names
        one within a group.  AssertionError for other arguments; AttributeError, when the block begins, for a setting
        that does not exist.
        """
        return Patched(self, changes_asked(arg1, arg2, kwargs))

    def to_dict(self) -> dict:
        """Every setting with its value, groups by names with dots."""
        return {name: value_at(self, name) for name in listed(self)}

    shallow_copy_dict = get_config_copy = to_dict


def changes_asked(arg1, arg2, kwargs: dict) -> dict:
    """Return {name: value} of the arguments of ``patch``.  AssertionError for arguments in no form that it takes."""
    def insist(condition, text):
        if not condition:
            raise AssertionError(text)

    if arg1 is None:
        insist(arg2 is UNSET, "second positional argument is only valid when first argument is a key string")
        return kwargs
    insist(not kwargs, "cannot pass both positional and keyword arguments to patch")
    if arg2 is UNSET:
        insist(isinstance(arg1, dict), "first argument must be a dict when passing a single positional arg to patch")
        return dict(arg1)
    insist(isinstance(arg1, str), "first argument must be a string when passing 2 positional args to patch")
    return {arg1: arg2}


def path_of(config) -> str:
    return f"torch.{config.__name__.partition('.')[2]}"


def listed(config) -> dict:
    """PyTorch's settings in a module: name -> (kind, text), as the table has them."""
    from ..compat.table import entries  # read when a program first uses a setting that has no effect
    return entries(path_of(config))


def value_at(config, path: str):
    """The value of a setting, also of one in a group."""
    owner, name = owner_of(config, path)
    return getattr(owner, name)


def elsewhere(place: str):
    """(module, name) of a setting that is one of another module."""
    home, _, name = place.partition(":")
    return import_module("rushlight" + home.removeprefix("torch")), name


def read(config, path: str):
    """The value of a setting that no definition stands for: PyTorch's default, or a group of settings."""
    if path.startswith("__"):
        raise AttributeError(path)
    known = listed(config)
    kind, text = known.get(path, (None, None))
    if kind == "from":
        return getattr(*elsewhere(text))
    if kind == "value":
        return ast.literal_eval(text)
    if any(name.startswith(f"{path}.") for name in known):
        return Group(config, path)
    near = difflib.get_close_matches(path, {*known, *vars(type(config))}, 1)
    raise AttributeError(f"{path_of(config)} has no setting {path!r}"
                         + (f": did you mean {near[0]!r}?" if near else ""))


def write(config, path: str, value, owner=None):
    """Store the value of a setting that has no effect, and warn once."""
    kind, text = listed(config).get(path, (None, None))
    if kind == "from":
        return setattr(*elsewhere(text), value)
    default = read(config, path)
    if value != default and f"{path_of(config)}.{path}" not in Warned.names:
        Warned.names.add(f"{path_of(config)}.{path}")
        warn(f"{path_of(config)}.{path} = {value!r} has no effect here: it steers a part of PyTorch's compiler that "
             "Rushlight does not have")
    vars(owner or config)[path.rpartition(".")[2]] = value


class Warned:
    """The settings for which the warning that they have no effect was issued."""

    names: set = set()


class ComputedSetting(property):
    """A setting that functions read and write.  Once deleted it is not there until it is set again, which is how
    ``unittest.mock.patch`` gives it back its value."""

    is_deleted = False

    def __get__(self, config, kind=None):
        if self.is_deleted and config is not None:
            raise AttributeError(f"this setting was deleted: {self.__doc__}")
        return super().__get__(config, kind)

    def __set__(self, config, value):
        super().__set__(config, value)
        self.is_deleted = False

    def __delete__(self, config):
        self.is_deleted = True


class Steered(ComputedSetting):
    """A setting whose value is an attribute of ``owner``: ``write`` converts the user's value to it, ``read`` converts
    it back."""

    def __init__(self, owner, attribute: str, text: str, write=lambda value: value, read=lambda value: value):
        self.owner, self.attribute = owner, attribute
        super().__init__(lambda config: read(getattr(owner, attribute)),
                         lambda config, value: setattr(owner, attribute, write(value)), doc=text)


class Disabling(Steered):
    """True if a Rushlight setting has the value that disables a feature; assigning False restores the setting's
    default."""

    def __init__(self, setting: str, off, text: str):
        super().__init__(settings, setting, text, read=lambda value: value == off)
        self.off = off

    def __set__(self, config, value):
        if value:
            super().__set__(config, self.off)
        else:
            settings.chosen.pop(self.attribute, None)
            self.is_deleted = False


class Group:
    """Settings under one name."""

    def __init__(self, config, path: str):
        vars(self).update(_config=config, _path=path)
        vars(config)[path] = self  # what is set stays

    def __getattr__(self, name):
        return read(self._config, f"{self._path}.{name}")

    def __setattr__(self, name, value):
        write(self._config, f"{self._path}.{name}", value, self)


class Patched(contextlib.ContextDecorator):
    """Settings changed for a block, which raises AttributeError where one does not exist and changes nothing then."""

    def __init__(self, config, changes):
        self.config, self.changes = config, dict(changes)
        self.before = contextvars.ContextVar("before", default=())  # one object may be active in several threads

    def __enter__(self):
        places = [(*owner_of(self.config, name), value) for name, value in self.changes.items()]
        former = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
        try:
            for owner, name, value in places:
                setattr(owner, name, value)
        except BaseException:
            restore(former)
            raise
        self.before.set((*self.before.get(), former))
        return self

    def __exit__(self, *exception):
        *outer, former = self.before.get()
        self.before.set(tuple(outer))
        restore(former)


def restore(former: list):
    """Sets settings, (owner, name, value) each, the last one first."""
    for owner, name, value in reversed(former):
        setattr(owner, name, value)


def owner_of(config, path):
    """(the owner of a setting, its last name). Raises AttributeError if there is none."""
    *groups, name = path.split(".")
    owner = config
    for group in groups:
        owner = getattr(owner, group)
    if not hasattr(owner, name):
        raise AttributeError(f"{path_of(config)} has no setting {path!r}")
    return owner, name
