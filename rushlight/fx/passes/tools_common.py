"""Queries about nodes, and topological sorting of graphs."""
from __future__ import annotations

import heapq
import operator

from ..._src.compat.homes import name_in_files
from ..._src.core.native import Tensor
from ..graph import Graph

CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_node_target(submodules, node) -> str:
    """Return the target of a node as a string: the class of its module, the qualified name of its function, or its
    method."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"Expect op types of {', '.join(sorted(CALLABLE_NODE_OPS))}, but found op {node.op}")
    if node.op == "call_module":
        kind = type(submodules[node.target])
        return ".".join(name_in_files(kind) or (kind.__module__, kind.__name__))
    if node.op == "call_method":
        return node.target
    return get_acc_ops_name(node.target)


def get_acc_ops_name(k) -> str:
    """A function's name with its module; a name as it is."""
    if isinstance(k, str):
        return k
    module = (getattr(k, "__module__", None) or "").replace("rushlight", "torch", 1)
    return f"{module}.{k.__name__}" if module else k.__name__


def is_node_output_tensor(node) -> bool:
    """Whether a node gives a tensor, by the type that was noted of it."""
    kind = node.meta.get("type")
    return isinstance(kind, type) and issubclass(kind, Tensor)


def in_order(gm, key):
    """A module whose nodes come after those they read, otherwise by ``key``.  RuntimeError for a circle."""
    nodes = list(gm.graph.nodes)
    left = {node: len(node.all_input_nodes) for node in nodes}
    ready = [(key(k, node), k, node) for k, node in enumerate(nodes) if not left[node]]
    heapq.heapify(ready)
    place, graph, env = {node: k for k, node in enumerate(nodes)}, Graph(), {}
    while ready:
        node = heapq.heappop(ready)[-1]
        env[node] = graph.node_copy(node, env.__getitem__)
        for user in node.users:
            left[user] -= 1
            if not left[user]:
                heapq.heappush(ready, (key(place[user], user), place[user], user))
    if len(env) < len(nodes):
        raise RuntimeError(f"Input graph has cycles, unable to add {[node for node in nodes if node not in env]}")
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm


def stable_topological_sort(gm):
    """The module with its nodes after those that they read, and no more moved than needed."""
    return in_order(gm, lambda k, node: k)


def legalize_graph(gm):
    """The module with its nodes after those that they read: placeholders first, the result last."""
    return in_order(gm, lambda k, node: {"placeholder": 0, "output": 2}.get(node.op, 1))


def getattr_recursive(obj, name: str):
    """An attribute by its path; None of what is not there."""
    for part in name.split("."):
        obj = getattr(obj, part, None)
    return obj


def setattr_recursive(obj, attr: str, value) -> None:
    """Sets an attribute by its path."""
    path, _, last = attr.rpartition(".")
    setattr(operator.attrgetter(path)(obj) if path else obj, last, value)
