"""Nodes of a captured graph by the module or function that they came from."""
from __future__ import annotations

from dataclasses import dataclass, field


__all__ = ["get_source_partitions", "check_subgraphs_connected", "SourcePartition"]


@dataclass
class SourcePartition:
    """The nodes of one use of a module or function; what they read, what is read of them, and their parameters."""

    nodes: list
    source: object
    input_nodes: list = field(default_factory=list)
    output_nodes: list = field(default_factory=list)
    params: list = field(default_factory=list)


def get_source_partitions(graph, wanted_sources, filter_fn=None) -> dict:
    """{source: its SourcePartitions} for classes of modules and functions that nodes came from
    (``meta["source_fn_stack"]``, as export notes it)."""
    uses: dict = {}
    for node in graph.nodes:
        stack = node.meta.get("source_fn_stack") or ([node.meta["torch_fn"]] if "torch_fn" in node.meta else None)
        if stack and stack[-1][1] in wanted_sources:
            name, source = stack[-1]
            uses.setdefault(source, {}).setdefault(name, []).append(node)
    found = {source: [of_nodes(nodes, source) for nodes in named.values()] for source, named in uses.items()}
    if filter_fn is not None:
        found = {source: [p for p in partitions if all(map(filter_fn, p.nodes))]
                 for source, partitions in found.items()}
        found = {source: partitions for source, partitions in found.items() if partitions}
    return found


def of_nodes(nodes, source) -> SourcePartition:
    inside, inputs, outputs, params = set(nodes), {}, {}, {}
    for node in nodes:
        for used in node.all_input_nodes:
            if used not in inside:
                (params if used.op == "get_attr" else inputs)[used] = None
        if node.op == "get_attr":
            params[node] = None
        if any(user not in inside for user in node.users):
            outputs[node] = None
    return SourcePartition(nodes, source, list(inputs), list(outputs), list(params))


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether the second reads what the first gives."""
    return any(used in subgraph1.nodes for node in subgraph2.nodes for used in node.all_input_nodes)
