"""Nested containers under the names that PyTorch programs import them by."""
from __future__ import annotations

from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass
from functools import partial
from typing import Any

from .._src.core.pytree import (HANDLERS, LEAF, TreeSpec, container, is_namedtuple, tree_flatten, tree_leaves, tree_map,
                                tree_structure, tree_unflatten)
from .._src.core.pytree import register_pytree_node as register
from .._src.core.pytree import tree_map_only as map_only
from .._src.core.later import later

__all__ = ["GetAttrKey", "KeyEntry", "KeyPath", "LeafSpec", "MappingKey", "PyTree", "SequenceKey", "TreeSpec", "keystr",
           "key_get", "register_pytree_node", "tree_all",
           "tree_all_only", "tree_any", "tree_any_only", "tree_flatten", "tree_flatten_with_path", "tree_iter",
           "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_",
           "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten",
           "treespec_pprint"]
PyTree = Any
SUPPORTED_NODES = HANDLERS
_cxx_pytree_exists = _cxx_pytree_dynamo_traceable = False  # optree is not used: there is one implementation
CONSTANT_NODES: set = set()  # classes whose instances are part of the nesting
KEYS: dict = {}  # class -> how to flatten one with the key of each child
_LEAF_SPEC, _get_node_type = LEAF, container
for _kind, _name in ((list, "list"), (tuple, "tuple"), (dict, "dict"), (OrderedDict, "ordereddict"),
                     (namedtuple, "namedtuple"), (deque, "deque")):
    globals().update({f"_{_name}_flatten": HANDLERS[_kind].flatten_fn,
                      f"_{_name}_unflatten": HANDLERS[_kind].unflatten_fn,
                      f"_{_name}_flatten_with_keys": partial(lambda kind, value: keyed(value, kind), _kind)})


def LeafSpec():
    """The spec of a leaf."""
    return LEAF


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
                         from_dumpable_context=None, flatten_with_keys_fn=None):
    """Makes a class a container: ``flatten_fn(value) -> (children, context)``,
    ``unflatten_fn(children, context) -> value``.

    With a ``serialized_type_name`` specs of it can be written as text; functions between its context and what JSON has
    are given both or not at all (ValueError).
    """
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    register(cls, flatten_fn, unflatten_fn)
    if flatten_with_keys_fn is not None:
        KEYS[cls] = flatten_with_keys_fn
    if serialized_type_name is not None:
        from .pytree_text import WRITTEN, Written
        functions = (to_dumpable_context, from_dumpable_context) if to_dumpable_context else ()
        WRITTEN[cls] = Written(serialized_type_name, *functions)


_register_pytree_node = register_pytree_node


def _private_register_pytree_node(cls, *args, **kwargs):
    if cls not in HANDLERS:
        register_pytree_node(cls, *args, **kwargs)


def register_constant(cls):
    """Makes instances of a class part of the nesting: they are no leaves."""
    register(cls, lambda value: ([], value), lambda children, value: value)
    CONSTANT_NODES.add(cls)


def is_constant_class(cls) -> bool:
    """Whether instances of a class are part of the nesting."""
    return isinstance(cls, type) and cls in CONSTANT_NODES


@dataclass(frozen=True)
class SequenceKey:
    """A place in a sequence."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A key of a mapping."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """An attribute."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, owner):
        return getattr(owner, self.name)


KeyEntry, KeyPath = Any, tuple


def keystr(kp) -> str:
    """A path as text: ``['a'][0]``."""
    return "".join(map(str, kp))


def key_get(obj, kp):
    """Return the value at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def _dict_flatten(d):
    return list(d.values()), list(d)


def _dict_unflatten(values, context):
    return dict(zip(context, values))


def _list_flatten(d):
    return d, None


def _list_unflatten(values, context):
    return list(values)


def keyed(value, kind):
    """The children of a container with their keys, and its context."""
    if kind in KEYS:
        return KEYS[kind](value)
    children, context = HANDLERS[kind].flatten_fn(value)
    if isinstance(value, dict):
        return [(MappingKey(k), c) for k, c in zip(value, children)], context
    if hasattr(kind, "_fields") or hasattr(type(value), "_fields"):
        return [(GetAttrKey(n), c) for n, c in zip(type(value)._fields, children)], context
    return [(SequenceKey(k), c) for k, c in enumerate(children)], context


def tree_flatten_with_path(tree, is_leaf=None):
    """The leaves of a tree with their paths: [(path, leaf)], and its spec."""
    return list(with_paths(tree, (), is_leaf)), tree_structure(tree, is_leaf)


def with_paths(value, path, is_leaf):
    """The leaves below a value, one by one, with their paths."""
    kind = container(value)
    if kind is None or is_leaf is not None and is_leaf(value):
        yield path, value
        return
    for key, child in keyed(value, kind)[0]:
        yield from with_paths(child, (*path, key), is_leaf)


def tree_leaves_with_path(tree, is_leaf=None) -> list:
    """The leaves of a tree with their paths."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """A tree with ``func(path, leaf, ...)`` for each leaf."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = zip(*found) if found else ((), ())
    others = [tree_leaves(r, is_leaf) for r in rests]
    return tree_unflatten([func(*xs) for xs in zip(paths, leaves, *others)], spec)


def tree_iter(tree, is_leaf=None):
    """The leaves of a tree, one by one."""
    yield from tree_leaves(tree, is_leaf)


def tree_map_(func, tree, *rests, is_leaf=None):
    """Calls ``func`` with each leaf; returns the tree as it is."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(type_or_types_or_pred, /, func=None, tree=None, is_leaf=None):
    """A tree with ``func`` applied to the leaves of a class (or several, or those that a predicate takes)."""
    if func is None:
        return lambda function: lambda leaf: function(leaf) if chosen(type_or_types_or_pred, leaf) else leaf
    if isinstance(type_or_types_or_pred, (type, tuple)) and is_leaf is None:
        return map_only(type_or_types_or_pred, func, tree)
    return tree_map(lambda leaf: func(leaf) if chosen(type_or_types_or_pred, leaf) else leaf, tree, is_leaf=is_leaf)




def chosen(kind, leaf) -> bool:
    return isinstance(leaf, kind) if isinstance(kind, (type, tuple)) else bool(kind(leaf))


def tree_map_only_(kind, func, tree, is_leaf=None):
    """Calls ``func`` with each leaf of a class; returns the tree as it is."""
    tree_map_only(kind, func, tree, is_leaf)
    return tree


def tree_all(pred, tree, is_leaf=None) -> bool:
    """Whether every leaf satisfies a predicate."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None) -> bool:
    """Whether any leaf satisfies a predicate."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(kind, pred, tree, is_leaf=None) -> bool:
    """Whether every leaf of a class satisfies a predicate."""
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kind))


def tree_any_only(kind, pred, tree, is_leaf=None) -> bool:
    """Whether any leaf of a class satisfies a predicate."""
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kind))


def treespec_pprint(treespec) -> str:
    return repr(treespec)


def _is_leaf(tree, is_leaf=None) -> bool:
    return container(tree) is None or is_leaf is not None and is_leaf(tree)


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """The leaves of a prefix, each repeated for the part below it; None where it is no prefix."""
    from .._src.core.pytree import broadcast_prefix
    return broadcast_prefix(tree, treespec, is_leaf)


tree_is_leaf = _is_leaf


def is_namedtuple_class(cls) -> bool:
    """Whether it is a class of named tuples."""
    return isinstance(cls, type) and is_namedtuple(cls)


def is_namedtuple_instance(obj) -> bool:
    """Whether it is a named tuple."""
    return is_namedtuple(type(obj))


def is_structseq_class(cls) -> bool:
    """Whether it is a class of tuples with names of the interpreter's own kind (``time.struct_time``), or of PyTorch's
    (``torch.return_types``)."""
    return isinstance(cls, type) and issubclass(cls, tuple) and all(isinstance(getattr(cls, name, None), int)
                                                                    for name in ("n_fields", "n_sequence_fields",
                                                                                 "n_unnamed_fields"))


def is_structseq_instance(obj) -> bool:
    """Whether it is such a tuple."""
    return is_structseq_class(type(obj))


def is_structseq(obj) -> bool:
    """Whether it is such a tuple, or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def arg_tree_leaves(*args, **kwargs) -> list:
    """The leaves of a call's arguments, those of keywords last."""
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_leaves(tree)]


def treespec_leaf() -> TreeSpec:
    """The spec of a leaf."""
    return LEAF


def treespec_tuple(iterable=(), /) -> TreeSpec:
    """The spec of a tuple whose elements have these specs."""
    return TreeSpec(tuple, None, iterable)


def treespec_dict(mapping=(), /, **kwargs) -> TreeSpec:
    """The spec of a dict whose values have these specs."""
    found = dict(mapping, **kwargs)
    return TreeSpec(dict, list(found), found.values())


__getattr__ = later(__name__, {".pytree_dataclasses": ("register_dataclass",),
                               ".pytree_text": ("treespec_dumps", "treespec_loads", "_register_namedtuple")})
