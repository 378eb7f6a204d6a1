"""Equal calls of a graph are made once."""
from __future__ import annotations

from .... import Graph, GraphModule
from ....node import is_random, map_arg, operator_under, writes
from ...infra.pass_base import PassBase, PassResult

PURE = ("_operator", "math", "builtins")  # modules of functions that depend on their arguments alone


def get_CSE_banned_ops() -> set:  # noqa: N802 - PyTorch's name
    """Return the operators whose equal calls are not merged: none beyond those that mutate or draw random numbers,
    which the pass knows."""
    return set()


def key_of(value):
    """Return the key that an argument is compared by; TypeError for an unhashable one."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(map(key_of, value))
    if isinstance(value, dict):
        return "dict", tuple((k, key_of(v)) for k, v in value.items())
    if isinstance(value, slice):
        return "slice", key_of((value.start, value.stop, value.step))
    hash(value)
    return type(value), value


class Memory:
    """Aliases among the values of a graph, and the number of writes to their memory before a node.

    A value shares memory with the arguments of its call unless the overload's schema excludes it; inputs and
    attributes have their own storage.
    """

    def __init__(self, graph):
        self.owners, outside = {}, None
        for node in graph.nodes:
            self.owners[node] = node
            if node.op in ("placeholder", "get_attr"):
                outside = outside or node
                self.join(node, outside)
            elif not fresh(node.target):
                for argument in node.all_input_nodes:
                    self.join(node, argument)
        self.counts = dict.fromkeys(self.owners, 0)
        self.written = {self.of(a) for node in graph.nodes if changes(node) for a in node.all_input_nodes}

    def of(self, node):
        """The value that stands for the memory of a node's."""
        while self.owners[node] is not node:
            node = self.owners[node]
        return node

    def join(self, one, other):
        self.owners[self.of(one)] = self.of(other)

    def state(self, node) -> tuple:
        """How often what a node reads was written to before it."""
        return tuple(self.counts[self.of(a)] for a in node.all_input_nodes)

    def note(self, node):
        """A node was run, which may have written into its arguments."""
        if changes(node):
            for argument in node.all_input_nodes:
                self.counts[self.of(argument)] += 1


def fresh(target) -> bool:
    """True if results of a call have memory of their own."""
    schema = getattr(target, "_schema", None)
    return schema is not None and all(result.alias_info is None for result in schema.returns)


def changes(node) -> bool:
    """Whether a node writes into an argument."""
    if node.op == "call_function":
        return bool(writes(node.target) or node.kwargs.get("out") is not None)
    if node.op == "call_method":
        return node.target.endswith("_") and not node.target.endswith("__")
    if node.op == "call_module" and node.graph.owning_module is not None:
        return bool(getattr(node.graph.owning_module.get_submodule(node.target), "inplace", False))
    return False


class CSEPass(PassBase):
    """A pass: calls of the same function with the same arguments become one, unless what they read or gave is written
    to between them or later.

    ``banned_ops``: functions whose calls are all kept, in addition to those that mutate or draw random numbers.
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
        graph, new, seen, modified, memory = Graph(), {}, {}, False, Memory(graph_module.graph)
        for node in graph_module.graph.nodes:
            if node.op == "output":
                made = graph.output(map_arg(node.args[0], new.__getitem__))
                made.meta.update(node.meta)
                continue
            key = None
            if not self.stays(node) and memory.of(node) not in memory.written:
                try:
                    key = node.target, key_of(map_arg((node.args, node.kwargs), new.__getitem__)), memory.state(node)
                except TypeError:
                    pass
            memory.note(node)
            if key is not None and key in seen:
                new[node], modified = seen[key], True
                continue
            new[node] = made = graph.node_copy(node, new.__getitem__)
            if key is not None:
                seen[key] = made
        return PassResult(GraphModule(graph_module, graph), modified)
