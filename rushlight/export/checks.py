"""What an exported program checks of its tensors while it runs: taken out where its operators are written anew, and
put in again behind them."""
from __future__ import annotations

from .._src.capture.unbacked import require
from .._ops import ops
from ..fx import Graph, GraphModule


def is_check(node) -> bool:
    """Whether a node raises unless the one element of a tensor is true."""
    if node.op != "call_function" or node.target is not require:
        return False
    read = node.args[0]
    return getattr(read, "target", None) in ("item", ops.aten.item.default)


def taken_out(module: GraphModule) -> tuple:
    """The module without its checks, whose last results are what they are about, and the error that each raises."""
    if not any(map(is_check, module.graph.nodes)):
        return module, []
    graph = Graph()
    results, conditions, errors = graph.graph_copy(module.graph, {}), [], []
    for node in list(graph.nodes):
        if is_check(node):
            read, error = node.args
            conditions.append(read.args[0])
            errors.append(error)
            graph.erase_node(node)
            if not read.users:
                graph.erase_node(read)
    graph.output((*results, *conditions))
    return GraphModule(module, graph), errors


def put_in(graph: Graph, conditions, errors):
    """Checks of these nodes, at the end of a graph."""
    with graph.inserting_before(graph.output_node()):
        for condition, error in zip(conditions, errors):
            graph.call_function(require, (graph.call_function(ops.aten.item.default, (condition,)), error))
