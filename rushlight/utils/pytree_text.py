"""The nesting of trees as text, in PyTorch's format: JSON, the number of the format first."""
from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass

from .. import return_types
from .._src.core.meta import Size
from .._src.core.pytree import TreeSpec

PROTOCOL = 1


@dataclass(frozen=True)
class Written:
    """A class of containers in text: its name, and its context as something that JSON has, and back."""

    name: str
    dump: Callable = json.dumps
    load: Callable = json.loads


FACTORIES = {kind.__name__: kind for kind in (list, dict, set, tuple, int, float, bool, str)}


def of_defaultdict(context):
    factory, keys = context
    return {"default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__,
            "dict_context": keys}


def to_defaultdict(text):
    """The context of a defaultdict.  ValueError for a factory that is none of Python's own types: a text names none
    that could do anything."""
    module, name = text["default_factory_module"], text["default_factory_name"]
    if module != "builtins" or name not in FACTORIES:
        raise ValueError(f"the text names {module}.{name} as the factory of a defaultdict: {', '.join(FACTORIES)} are "
                         "read")
    return FACTORIES[name], text["dict_context"]


WRITTEN = {list: Written("builtins.list"), tuple: Written("builtins.tuple"), dict: Written("builtins.dict"),
           OrderedDict: Written("collections.OrderedDict"),
           defaultdict: Written("collections.defaultdict", of_defaultdict, to_defaultdict),
           deque: Written("collections.deque"), Size: Written("torch.Size")}
NAMEDTUPLES: dict[str, type] = {}  # name -> class
RETURNED = "torch.return_types."  # what operators give is known by itself


def _register_namedtuple(cls, *, serialized_type_name: str) -> None:
    """Gives a class of named tuples the name under which it is written."""
    NAMEDTUPLES[serialized_type_name] = cls


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The nesting as text.  TypeError for anything but a spec, ValueError for an unknown format, NotImplementedError
    for a class without a name for it.

    >>> from rushlight.utils._pytree import tree_structure, treespec_dumps
    >>> treespec_dumps(tree_structure(3))
    '[1, {"type": null, "context": null, "children_spec": []}]'
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "treespec_dumps(treespec, protocol): Expected `treespec` to be instance of TreeSpec but got item of type "
            f"{type(treespec)}.")
    if protocol not in (None, PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{PROTOCOL}]")
    return json.dumps([PROTOCOL, written(treespec)])


def written(spec: TreeSpec) -> dict:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    name, context = named(spec)
    return {"type": name, "context": context, "children_spec": [written(child) for child in spec.children_specs]}


def named(spec: TreeSpec):
    """The name of a container's class and its context as text."""
    if spec.type is namedtuple:
        name = next((name for name, kind in NAMEDTUPLES.items() if kind is spec.context), None)
        if name is None and getattr(return_types, spec.context.__name__, None) is spec.context:
            name = RETURNED + spec.context.__name__
        if name is None:
            raise NotImplementedError(
                f"Can't serialize TreeSpec of namedtuple class {spec.context}: give it a name with "
                "`_register_namedtuple`.")
        return "collections.namedtuple", name
    if spec.type not in WRITTEN:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please pass `serialized_type_name` to "
            "register_pytree_node.")
    form = WRITTEN[spec.type]
    try:
        return form.name, form.dump(spec.context)
    except TypeError as error:
        raise TypeError(
            "Unable to serialize context. Please make the context json dump-able, or register a custom serializer "
            f"with `to_dumpable_context`: {error}") from error


def treespec_loads(serialized: str) -> TreeSpec:
    """The spec that a text says.  ValueError for an unknown format, NotImplementedError for an unknown class."""
    protocol, text = json.loads(serialized)
    if protocol != PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{PROTOCOL}]")
    return read(text)


def namedtuple_named(name: str) -> type:
    """A class of named tuples.  NotImplementedError for one that is not registered."""
    found = NAMEDTUPLES.get(name)
    if found is None and name.startswith(RETURNED):
        found = getattr(return_types, name.removeprefix(RETURNED), None)
    if not (isinstance(found, type) and issubclass(found, tuple)):
        raise NotImplementedError(f"No registered class of named tuples for {name!r}: register it with "
                                  "`_register_namedtuple`.")
    return found


def read(text: dict) -> TreeSpec:
    name, children = text["type"], [read(child) for child in text["children_spec"]]
    if name is None:
        return TreeSpec(None)
    if name == "collections.namedtuple":
        return TreeSpec(namedtuple, namedtuple_named(text["context"]), children)
    for kind, form in WRITTEN.items():
        if form.name == name:
            return TreeSpec(kind, form.load(text["context"]), children)
    raise NotImplementedError(f"No registered type for {name} found: register it with `serialized_type_name`.")
