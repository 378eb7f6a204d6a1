"""Lists and dicts that refuse to change: a node's arguments, whose users the graph keeps count of."""
from __future__ import annotations

from .._src.core.pytree import HANDLERS, register_pytree_node


def refusing(base: type, name: str, changers):
    """A subclass of a container whose methods that change it raise NotImplementedError."""

    def refuse(self, *args, **kwargs):
        raise NotImplementedError(
            f"'{name}' object does not support mutation. If you are attempting to modify the kwargs or args of a "
            "torch.fx.Node object, "
            "instead create a new copy of it and assign the copy to the node: new_args = ... ; node.args = new_args")

    kind = type(name, (base,),
                dict.fromkeys(changers, refuse) | {"__module__": __name__, "__hash__": lambda self: hash(tuple(self))})
    kind.__reduce__ = lambda self: (kind, (base(self),))
    kind.__deepcopy__ = lambda self, memo: self
    return kind


immutable_list = refusing(list, "immutable_list", ("__delitem__", "__iadd__", "__imul__", "__setitem__", "append",
                                                   "clear", "extend", "insert", "pop", "remove",
                                                   "reverse", "sort"))
immutable_dict = refusing(dict, "immutable_dict", ("__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem",
                                                   "setdefault", "update"))

if immutable_list not in HANDLERS:
    register_pytree_node(immutable_list, lambda v: (list(v), None), lambda children, _: immutable_list(children))
    register_pytree_node(immutable_dict, lambda v: (list(v.values()), list(v)),
                         lambda children, keys: immutable_dict(zip(keys, children)))
