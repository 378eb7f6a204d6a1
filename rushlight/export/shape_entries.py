"""``dynamic_shapes`` matched with the arguments of an export: by the names of parameters, keys and positions."""
from __future__ import annotations

import inspect

from .._src.capture.errors import UserError
from .._src.core.pytree import DICTS, HANDLERS, container, tree_leaves
from ..utils._pytree import GetAttrKey, MappingKey, SequenceKey, keyed, keystr

BUILT_IN = frozenset(HANDLERS)  # containers of Python: those registered later are classes of users
MISMATCH = "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: "
SEVERAL, NAMED = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


class LeafEntries(list):
    """``dynamic_shapes`` in a form of our own: the entry of each leaf of the arguments, in their order."""


def bind_arguments(mod, args, kwargs) -> dict:
    """Return the arguments of a call by the names of the parameters of ``mod.forward``, in the order of these."""
    return inspect.signature(getattr(mod, "forward", mod)).bind(*args, **(kwargs or {})).arguments


def entries_of_leaves(mod, args, kwargs, dynamic_shapes) -> list:
    """Return (leaf, its entry in ``dynamic_shapes``, the entry's path as text) for each leaf of ``(args, kwargs)``.

    Raises:
        UserError: if ``dynamic_shapes`` is nested otherwise than the arguments are, or names other ones.
        AssertionError: if it is no dict, tuple or list.
    """
    if isinstance(dynamic_shapes, LeafEntries):
        return [(leaf, entry, "") for leaf, entry in zip(tree_leaves((args, kwargs)), dynamic_shapes, strict=True)]
    if not isinstance(dynamic_shapes, (dict, tuple, list, type(None))):
        raise AssertionError(f"expected dynamic_shapes to be dict, tuple, or list, got {type(dynamic_shapes)}")
    if not dynamic_shapes:
        return [(leaf, None, "") for leaf in tree_leaves((args, kwargs))]
    rows = match_parameters(bind_arguments(mod, args, kwargs), dynamic_shapes)
    parameters = inspect.signature(mod.forward).parameters
    positional, named = [], {}
    for name, (value, entry, path) in rows.items():
        if parameters[name].kind is SEVERAL:
            positional += match_children(value, entry, path)
        elif parameters[name].kind is NAMED:
            named |= zip(value, match_children(value, entry, path))
        elif name in kwargs:
            named[name] = value, entry, path
        else:
            positional.append((value, entry, path))
    return [leaf for row in (*positional, *(named[name] for name in kwargs)) for leaf in match_leaves(*row)]


def match_parameters(bound: dict, dynamic_shapes) -> dict:
    """Return {parameter: (argument, entry, path)}."""
    if isinstance(dynamic_shapes, dict):
        if set(dynamic_shapes) != set(bound):
            raise UserError("When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names "
                            f"{list(bound)} of `inputs`, but here they are {list(dynamic_shapes)}. Arguments whose "
                            "sizes do not vary are given None.")
        return {name: (value, dynamic_shapes[name], keystr((MappingKey(name),))) for name, value in bound.items()}
    if len(dynamic_shapes) != len(bound):
        raise UserError(f"{MISMATCH}`inputs` has {len(bound)} elements, but `dynamic_shapes` has "
                        f"{len(dynamic_shapes)} elements")
    return {name: (value, entry, keystr((SequenceKey(k),)))
            for k, ((name, value), entry) in enumerate(zip(bound.items(), dynamic_shapes))}


def match_leaves(value, entry, path: str):
    """Yield (leaf, entry, path) for each leaf of an argument."""
    if container(value) is None:
        yield value, entry, path
        return
    for row in match_children(value, entry, path):
        yield from match_leaves(*row)


def match_children(value, entry, path: str) -> list:
    """Return (child, entry, path) for each child of a container; None as entry stands for None below it, too."""
    rows, _ = keyed(value, container(value))
    if entry is None:
        entries = [None] * len(rows)
    elif container(value) in DICTS:
        entries = entries_by_key(value, entry, path)
    else:
        entries = entries_in_order(value, entry, path, [key for key, _ in rows])
    return [(child, one, path + keystr((key,))) for (key, child), one in zip(rows, entries, strict=True)]


def entries_by_key(value, entry, path: str) -> list:
    """Return the entries of a dict in the order of its keys."""
    if container(entry) not in DICTS:
        refuse_kind(value, entry, path)
    if len(entry) != len(value):
        refuse_count(len(value), len(entry), path)
    if set(entry) != set(value):
        raise UserError(f"{MISMATCH}`inputs{path}` has keys {list(value)}, but `dynamic_shapes{path}` has keys "
                        f"{list(entry)}")
    return [entry[key] for key in value]


def entries_in_order(value, entry, path: str, keys: list) -> list:
    """Return the entries of a container of another class than dict, whose children have these keys.  Classes that a
    user registered take their fields' entries as a list or tuple, too; others take an instance of their own class."""
    kind, found, count = container(value), type(entry), len(keys)
    if found is type(value) and kind not in BUILT_IN and all(isinstance(key, GetAttrKey) for key in keys):
        return [key.get(entry) for key in keys]  # None as a field's entry is no child of the instance
    if found is type(value):
        entries = list(HANDLERS[kind].flatten_fn(entry)[0])
    elif kind not in BUILT_IN and found in (list, tuple):
        entries = list(entry)
    else:
        refuse_kind(value, entry, path)
    if len(entries) != count:
        refuse_count(count, len(entries), path)
    return entries


def refuse_kind(value, entry, path: str):
    """UserError for an entry of another kind than the container it is for."""
    other = f"is a {type(entry)}" if container(entry) else "is not"
    raise UserError(f"{MISMATCH}`inputs{path}` is a {type(value)}, but `dynamic_shapes{path}` {other}")


def refuse_count(wanted: int, given: int, path: str):
    """UserError for another number of entries than the container has items."""
    raise UserError(f"{MISMATCH}`inputs{path}` has {wanted} elements, but `dynamic_shapes{path}` has {given} elements")


def registered_classes(spec) -> list:
    """The classes in a nesting that the user registered as containers: examples of a program's inputs have them."""
    own = [spec.type] if isinstance(spec.type, type) and spec.type not in BUILT_IN else []
    return list(dict.fromkeys([*own, *(one for child in spec.children_specs for one in registered_classes(child))]))
