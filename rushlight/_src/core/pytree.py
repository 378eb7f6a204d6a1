"""Nested containers as a list of leaves and a description of the nesting."""
from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple

from .meta import Size

Handler = namedtuple("Handler", "flatten_fn unflatten_fn")  # value -> (children, context); (children, context) -> value


def is_namedtuple(value) -> bool:
    """True if a value (or class) is a named tuple."""
    kind = value if isinstance(value, type) else type(value)
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


HANDLERS: dict[type, Handler] = {
    list: Handler(lambda v: (v, None), lambda c, _: list(c)),
    tuple: Handler(lambda v: (v, None), lambda c, _: tuple(c)),
    dict: Handler(lambda v: (list(v.values()), list(v)), lambda c, keys: dict(zip(keys, c))),
    OrderedDict: Handler(lambda v: (list(v.values()), list(v)), lambda c, keys: OrderedDict(zip(keys, c))),
    defaultdict: Handler(lambda v: (list(v.values()), (v.default_factory, list(v))),
                         lambda c, k: defaultdict(k[0], zip(k[1], c))),
    deque: Handler(lambda v: (list(v), v.maxlen), lambda c, most: deque(c, most)),
    namedtuple: Handler(lambda v: (list(v), type(v)), lambda c, kind: kind(*c)),
    Size: Handler(lambda v: (list(v), None), lambda c, _: Size(c) if all(type(k) is int for k in c) else tuple(c)),
}


def register_pytree_node(kind: type, flatten, unflatten) -> None:
    """Makes a class a container: ``flatten(value) -> (children, context)``,
    ``unflatten(children, context) -> value``."""
    if kind in HANDLERS:
        raise ValueError(f"{kind} is already registered as a pytree node")
    HANDLERS[kind] = Handler(flatten, unflatten)


class TreeSpec:
    """The nesting of a tree: the container's class (None for a leaf), its context, and the specs of its children."""

    __slots__ = ("type", "context", "children_specs", "num_leaves")

    def __init__(self, type, context=None, children_specs=()):
        self.type, self.context, self.children_specs = type, context, list(children_specs)
        self.num_leaves = 1 if type is None else sum(c.num_leaves for c in self.children_specs)

    def is_leaf(self) -> bool:
        return self.type is None

    num_nodes = property(lambda self: 1 + sum(child.num_nodes for child in self.children_specs))
    num_children = property(lambda self: len(self.children_specs))

    def children(self) -> list[TreeSpec]:
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        return self.children_specs[index]

    def flatten_up_to(self, tree) -> list:
        """The parts of a tree at the places of this spec's leaves."""
        return flatten_as(tree, self)

    def unflatten(self, leaves):
        """The tree of this spec with these leaves."""
        return tree_unflatten(leaves, self)

    def __eq__(self, other):
        return (isinstance(other, TreeSpec) and self.type is other.type and self.context == other.context
                and len(self.children_specs) == len(other.children_specs)
                and all(mine == its for mine, its in zip(self.children_specs, other.children_specs)))

    __hash__ = None

    def __repr__(self):
        return "*" if self.type is None else f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"


LEAF = TreeSpec(None)


def container(value):
    """The handler's key for a value; None for a leaf."""
    kind = type(value)
    return kind if kind in HANDLERS else namedtuple if is_namedtuple(kind) else None


def tree_flatten(tree, is_leaf=None) -> tuple:
    """The leaves of a tree, and its spec.

    >>> tree_flatten({"a": 1, "b": (2, 3)})[0]
    [1, 2, 3]
    """
    leaves = []
    return leaves, collected(tree, is_leaf, leaves)


def collected(value, is_leaf, leaves) -> "TreeSpec":
    """The spec of a tree, whose leaves are added to a list.  (No function within another: one that names itself would
    hold the leaves until the collector runs.)"""
    kind = container(value)
    if kind is None or (is_leaf is not None and is_leaf(value)):
        leaves.append(value)
        return LEAF
    children, context = HANDLERS[kind].flatten_fn(value)
    return TreeSpec(kind, context, [collected(child, is_leaf, leaves) for child in children])


def tree_unflatten(leaves, treespec: TreeSpec):
    """The tree of this spec with these leaves.  ValueError where their number is not the spec's."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: the spec has {treespec.num_leaves} leaves, but {len(leaves)} were given")
    return built(treespec, iter(leaves))


DICTS = {dict, OrderedDict, defaultdict}  # which stand for each other in the trees after the first


def built(spec: TreeSpec, left):
    """The tree of a spec with the next leaves of an iterator."""
    if spec.type is None:
        return next(left)
    return HANDLERS[spec.type].unflatten_fn([built(child, left) for child in spec.children_specs], spec.context)


def tree_leaves(tree, is_leaf=None) -> list:
    """The leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree, is_leaf=None) -> TreeSpec:
    """The spec of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rest, is_leaf=None):
    """A tree with ``func`` applied to each leaf (and to the leaves of ``rest`` at the same places)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [flatten_as(r, spec) for r in rest]
    return tree_unflatten(map(func, leaves, *others), spec)


def tree_map_only(kind, function, tree):
    """A tree with ``function`` applied to the leaves of a class."""
    return tree_map(lambda leaf: function(leaf) if isinstance(leaf, kind) else leaf, tree)


def flatten_as(tree, spec: TreeSpec) -> list:
    """The leaves of a tree that must be nested like ``spec``; any subtree may take the position of a leaf of
    ``spec``."""
    if spec.type is None:
        return [tree]
    if container(tree) is not spec.type and not {container(tree), spec.type} <= DICTS:
        raise ValueError(f"expected a {spec.type.__name__} as in the first tree, got {type(tree).__name__}")
    children, context = HANDLERS[container(tree)].flatten_fn(tree)
    if len(children) != len(spec.children_specs):
        raise ValueError(f"expected {len(spec.children_specs)} entries as in the first tree, got {len(children)}")
    if spec.type not in DICTS and spec.type is not deque and context != spec.context:
        raise ValueError(f"expected {spec.context} as in the first tree, got {context}")
    if spec.type in DICTS:
        keys = spec.context[1] if spec.type is defaultdict else spec.context
        if set(tree) != set(keys):
            raise ValueError(f"expected the keys {keys} as in the first tree, got {list(tree)}")
        children = [tree[k] for k in keys]
    return [leaf for child, inner in zip(children, spec.children_specs) for leaf in flatten_as(child, inner)]


def broadcast_prefix(prefix, spec: TreeSpec, is_leaf=None) -> list | None:
    """The leaves of ``prefix``, each repeated for the part of ``spec`` below it; None where it is no prefix of
    ``spec``.

    >>> broadcast_prefix((0, None), tree_structure((1, {"a": 2, "b": 3})))
    [0, None, None]
    """
    kind = container(prefix)
    if kind is None or (is_leaf is not None and is_leaf(prefix)):
        return [prefix] * spec.num_leaves
    if spec.type is not kind:
        return None
    children, context = HANDLERS[kind].flatten_fn(prefix)
    if len(children) != len(spec.children_specs) or context != spec.context:
        return None
    parts = [broadcast_prefix(c, s, is_leaf) for c, s in zip(children, spec.children_specs)]
    return None if any(p is None for p in parts) else [leaf for part in parts for leaf in part]
