"""Nodes of a graph put into a submodule, which is called in their stead."""
from __future__ import annotations

import operator

from ...graph import Graph
from ..tools_common import legalize_graph
from .common import lift_subgraph_as_module


def topo_sort(nodes) -> list:
    """Nodes after those that they read."""
    left, found = dict.fromkeys(nodes), []
    while left:
        ready = [node for node in left if not any(used in left for used in node.all_input_nodes)]
        if not ready:
            raise AssertionError(
                "topological sorted nodes doesn't have same length as input nodes: they read each other in a cycle")
        found += ready
        for node in ready:
            del left[node]
    return found


def validate_partition(partition) -> bool:
    """Whether nodes can be one: no path leads from one of them to another through nodes outside."""
    inside = set(partition)
    left = [user for node in inside for user in node.users if user not in inside]
    seen = set(left)
    while left:
        for user in left.pop().users:
            if user in inside:
                return False
            if user not in seen:
                seen.add(user)
                left.append(user)
    return True


def fuse_as_graphmodule(gm, nodes, module_name: str, partition_lookup_table=None, *, always_return_tuple: bool = False):
    """(a module of these nodes, the nodes outside that they read, those of them that are read outside).  AssertionError
    for nodes that cannot be one."""
    for node in nodes:
        if node.graph.owning_module is not gm or node.op == "output":
            raise AssertionError(f"{node} cannot be fused: it has to be a node of {gm._get_name()}, and not its result")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    inside, graph, env, inputs = set(nodes), Graph(), {}, {}

    def within(used):
        if used not in env:
            inputs[used] = None
            env[used] = graph.placeholder(used.name, type_expr=used.type)
            env[used].meta = dict(used.meta)
        return env[used]

    for node in nodes:
        env[node] = graph.node_copy(node, within)
    outputs = tuple(node for node in nodes if any(user not in inside for user in node.users))
    found = tuple(env[node] for node in outputs)
    graph.output(found[0] if len(found) == 1 and not always_return_tuple else found)
    graph.lint()
    made, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return made, tuple(inputs), outputs


def insert_subgm(gm, sub_gm, orig_inputs, orig_outputs, insertion_point=None):
    """Call ``sub_gm``, registered as a submodule of this name, in place of the nodes it was made of; these stay."""
    name = sub_gm.__class__.__name__
    gm.add_submodule(name, sub_gm)
    with gm.graph.inserting_after(insertion_point) if insertion_point is not None else gm.graph.inserting_before(
            last(gm)):
        called = gm.graph.call_module(name, args=orig_inputs)
    whole = next(node for node in sub_gm.graph.nodes if node.op == "output").args[0]
    if len(orig_outputs) == 1 and not isinstance(whole, tuple):
        orig_outputs[0].replace_all_uses_with(called, propagate_meta=True)
        return gm
    point = called
    for k, node in enumerate(orig_outputs):
        with gm.graph.inserting_after(point):
            point = gm.graph.call_function(operator.getitem, (called, k))
        node.replace_all_uses_with(point, propagate_meta=True)
    return gm


def last(gm):
    return next(node for node in gm.graph.nodes if node.op == "output")


def erase_nodes(gm, nodes) -> None:
    """Erase unused nodes, in reverse topological order."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(gm, partitions, prefix: str = "fused_", always_return_tuple: bool = False):
    """Each group of nodes becomes a submodule ``fused_0``, ``fused_1``, ...; the module itself is changed."""
    for k, nodes in enumerate(partitions):
        nodes = topo_sort(list(nodes))
        made, inputs, outputs = fuse_as_graphmodule(gm, nodes, f"{prefix}{k}", always_return_tuple=always_return_tuple)
        insert_subgm(gm, made, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    legalize_graph(gm)
    gm.graph.lint()
    return gm
