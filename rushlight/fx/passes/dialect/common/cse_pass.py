"""Equal calls of a graph are made once."""
from __future__ import annotations

from .... import Graph, GraphModule
from ....node import is_random, map_arg, operator_under, writes
from ...infra.pass_base import PassBase, PassResult

__all__ = ["CSEPass", "get_CSE_banned_ops"]

PURE = ("_operator", "math", "builtins")  # modules of functions that depend on their arguments alone


def get_CSE_banned_ops() -> set:  # noqa: N802 - PyTorch's name
    """The operators of which two equal calls are two: none beyond those that write or draw random numbers, which the
    pass knows."""
    return set()


def key_of(value):
    """What an argument is compared by; TypeError for what cannot be compared."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(map(key_of, value))
    if isinstance(value, dict):
        return "dict", tuple((k, key_of(v)) for k, v in value.items())
    if isinstance(value, slice):
        return "slice", key_of((value.start, value.stop, value.step))
    hash(value)
    return type(value), value


class CSEPass(PassBase):
    """A pass: calls of the same function with the same arguments become one.

    ``banned_ops``: functions of which every call stays, beside those that write or draw random numbers.
    """

    def __init__(self, banned_ops=None):
        super().__init__()
        self.banned_ops = get_CSE_banned_ops() if banned_ops is None else set(banned_ops)

    def stays(self, node) -> bool:
        """Whether every call like this one is made."""
        target = node.target
        pure = operator_under(target) is not None or getattr(target, "__module__", None) in PURE
        return (node.op != "call_function" or not pure or target in self.banned_ops or writes(target)
                or is_random(target) or getattr(target, "overloadpacket", None) in self.banned_ops)

    def call(self, graph_module) -> PassResult:
        graph, new, seen, modified = Graph(), {}, {}, False
        for node in graph_module.graph.nodes:
            if node.op == "output":
                made = graph.output(map_arg(node.args[0], new.__getitem__))
                made.meta.update(node.meta)
                continue
            key = None
            if not self.stays(node):
                try:
                    key = node.target, key_of(map_arg((node.args, node.kwargs), new.__getitem__))
                except TypeError:
                    pass
            if key is not None and key in seen:
                new[node], modified = seen[key], True
                continue
            new[node] = made = graph.node_copy(node, new.__getitem__)
            if key is not None:
                seen[key] = made
        return PassResult(GraphModule(graph_module, graph), modified)
