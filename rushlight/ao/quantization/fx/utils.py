"""Questions about nodes of prepared graphs."""
from __future__ import annotations

from ....fx import Graph, GraphModule, Node
from ....fx.node import map_arg


def _get_module(node: Node, modules: dict):
    """The module that a node calls, or None."""
    return modules.get(str(node.target)) if node.op == "call_module" else None


def graph_module_from_producer_nodes(root, producer_nodes) -> GraphModule:
    """Return a module of the nodes that compute a value; ``producer_nodes`` are in reverse order."""
    if not producer_nodes:
        raise AssertionError("list of producer nodes can not be empty")
    nodes, graph, made = list(reversed(producer_nodes)), Graph(), {}

    def copied(value):
        return map_arg(value, lambda node: made[node])

    for node in nodes:
        made[node] = graph.node_copy(node, copied)
    graph.output(copied(nodes[-1]))
    return GraphModule(root, graph)


def node_arg_is_weight(node: Node, arg) -> bool:
    """Whether an argument of a node is its weight: as its ``meta["target_dtype_info"]`` says, or by its name."""
    index = node.meta.get("target_dtype_info", {}).get("weight_index")
    if index is not None and index < len(node.args) and node.args[index] is arg:
        return True
    return node.kwargs.get("weight") is arg


def node_arg_is_bias(node: Node, arg) -> bool:
    """Whether an argument of a node is its bias: as its ``meta["target_dtype_info"]`` says, or by its name."""
    index = node.meta.get("target_dtype_info", {}).get("bias_index")
    if index is not None and index < len(node.args) and node.args[index] is arg:
        return True
    return node.kwargs.get("bias") is arg
