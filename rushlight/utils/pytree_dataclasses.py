"""Dataclasses as containers: fields that are None are part of the nesting, the others are children."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ._pytree import GetAttrKey, register_pytree_node

__all__ = ["FieldFlattener", "register_dataclass", "register_dataclass_as_pytree_node"]


@dataclasses.dataclass(frozen=True)
class FieldFlattener:
    """Flatten instances of ``cls`` into the fields ``names``; the context is [names of children, names of fields that
    are None].  With ``keep_none`` fields that are None are children, too."""

    cls: type
    names: tuple
    keep_none: bool = False

    def context(self, value) -> list:
        """Return the names of the fields that are children, and of those that are None."""
        nones = [] if self.keep_none else [name for name in self.names if getattr(value, name) is None]
        return [[name for name in self.names if name not in nones], nones]

    def flatten(self, value) -> tuple:
        context = self.context(value)
        return [getattr(value, name) for name in context[0]], context

    def flatten_with_keys(self, value) -> tuple:
        context = self.context(value)
        return [(GetAttrKey(name), getattr(value, name)) for name in context[0]], context

    def unflatten(self, children, context):
        named, nones = context
        return self.cls(**dict(zip(named, children, strict=True)), **dict.fromkeys(nones))


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """Register a class as a container of its fields, so that its instances can be arguments and results.

    Args:
        cls: a dataclass, or another class whose constructor takes ``field_names`` as keywords.
        field_names: the fields that are children; by default those that a dataclass's constructor takes.
        drop_field_names: fields that are left out: the constructor is to have defaults for them.
        serialized_type_name: the name of the class in files (default: its path).

    Raises:
        ValueError: if ``field_names`` is missing for a class that is no dataclass, or does not have the dataclass's
            fields; if the class is registered already.

    >>> import rushlight as torch, dataclasses
    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: object
    ...     y: object
    ...     label: object = None
    >>> torch.utils._pytree.register_dataclass(Point)
    >>> torch.utils._pytree.tree_map(lambda n: n + 1, Point(1, 2))
    Point(x=2, y=3, label=None)
    """
    dropped = set(drop_field_names or ())
    if dataclasses.is_dataclass(cls):
        initialized = [field.name for field in dataclasses.fields(cls) if field.init]
        wanted = {name for name in initialized if name not in dropped}
        if field_names is None:
            field_names = [name for name in initialized if name in wanted]
        check_fields(set(field_names), wanted)
    elif field_names is None:
        raise ValueError("field_names must be specified with a list of all fields used to initialize "
                         f"{cls}, as it is not a dataclass.")
    register_fields(FieldFlattener(cls, tuple(field_names)), serialized_type_name)


def check_fields(given: set, wanted: set):
    """ValueError unless the given fields are those that a dataclass's constructor takes."""
    if given != wanted:
        raise ValueError("field_names does not include all dataclass fields.\n"
                         f"Missing fields in `field_names`: {sorted(wanted - given)}; name them in `drop_field_names` "
                         f"if they are no part of the pytree. Unexpected fields: {sorted(given - wanted)}.")


def register_fields(fields: FieldFlattener, serialized_type_name, **functions):
    """Register a class by its fields; its path is its name in files where none is given."""
    cls = fields.cls
    register_pytree_node(cls, fields.flatten, fields.unflatten, flatten_with_keys_fn=fields.flatten_with_keys,
                         serialized_type_name=serialized_type_name or f"{cls.__module__}.{cls.__qualname__}",
                         **functions)


def register_dataclass_as_pytree_node(cls, flatten_fn: Callable | None = None, unflatten_fn: Callable | None = None, *,
                                      serialized_type_name=None, to_dumpable_context=None, from_dumpable_context=None,
                                      return_none_fields=False):
    """Register a dataclass as ``register_dataclass`` does; AssertionError for another class.

    Args:
        flatten_fn, unflatten_fn: replace the functions that take all fields.
        to_dumpable_context, from_dumpable_context: between a context and what JSON has; both or none.
        return_none_fields: fields that are None are children, too.
    """
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise AssertionError(f"Only dataclasses can be registered with this function: {cls}")
    names = tuple(field.name for field in dataclasses.fields(cls))
    functions = {"to_dumpable_context": to_dumpable_context, "from_dumpable_context": from_dumpable_context}
    fields = FieldFlattener(cls, names, return_none_fields)
    if flatten_fn is None and unflatten_fn is None:
        register_fields(fields, serialized_type_name, **functions)
        return
    register_pytree_node(cls, flatten_fn or fields.flatten, unflatten_fn or fields.unflatten,
                         serialized_type_name=serialized_type_name or f"{cls.__module__}.{cls.__qualname__}",
                         **functions)
