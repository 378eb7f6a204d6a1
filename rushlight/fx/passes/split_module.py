"""A traced module cut into submodules."""
from __future__ import annotations

import operator

from ...nn import Module
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg


class Partition:
    """The nodes of one submodule; ``inputs``: the nodes outside that they read; ``outputs``: those of them that are
    read outside."""

    def __init__(self, name: str):
        self.name, self.nodes, self.inputs, self.outputs, self.before = name, [], {}, {}, {}


def split_module(m, root_m, split_callback, qualname_map=None, keep_original_order=False,
                 keep_original_node_name=False, keep_original_input_name=True, *, partition_affix=None,
                 tuple_return=False):
    """A module in which each group of nodes is a submodule ``submod_0``, ``submod_1``, ...; ``split_callback(node)``
    gives the group's number.  ``partition_affix`` precedes the number; inputs of submodules are called as what they
    take, unless ``keep_original_input_name`` is False; nodes in them are named as in ``m`` with
    ``keep_original_node_name``, else after their targets; ``tuple_return``: submodules give tuples also of one value.

    ``qualname_map``, if given, is filled with {name in the result: name in ``m``} of the parts used.  RuntimeError if
    groups depend on each other in a cycle.
    """
    partitions, place = {}, {}
    affix = f"{partition_affix}_" if partition_affix else ""
    for node in m.graph.nodes:
        if node.op not in ("placeholder", "get_attr", "output"):
            number = split_callback(node)
            place[node] = partitions.setdefault(number, Partition(f"submod_{affix}{number}"))
            place[node].nodes.append(node)
    for node in m.graph.nodes:
        for used in node.all_input_nodes:
            source, target = place.get(used), place.get(node)
            if source is target or used.op == "get_attr" and target is not None:
                continue
            if source is not None:
                source.outputs[used] = None
            if target is not None:
                target.inputs[used] = None
                if source is not None:
                    target.before[source] = None
    graph, env, attributes = Graph(), {}, {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr") and (node.op == "placeholder"
                                                       or any(user not in place for user in node.users)):
            env[node] = graph.node_copy(node)
    for partition in in_order(list(partitions.values())):
        attributes[partition.name] = submodule(m, partition, qualname_map, keep_original_input_name, tuple_return,
                                               keep_original_node_name)
        called = graph.call_module(partition.name, tuple(env[n] for n in partition.inputs))
        outputs = list(partition.outputs)
        if len(outputs) == 1 and not tuple_return:
            env[outputs[0]] = called
        else:
            env.update((node, graph.call_function(operator.getitem, (called, k))) for k, node in enumerate(outputs))
    result = next(n for n in m.graph.nodes if n.op == "output")
    graph.node_copy(result, env.__getitem__)
    return GraphModule(whole(m, graph, attributes), graph)


def in_order(partitions) -> list:
    """The partitions, each after those that it needs.  RuntimeError where there is no such order."""
    done: dict = {}
    while len(done) < len(partitions):
        ready = [p for p in partitions if p not in done and all(b in done for b in p.before)]
        if not ready:
            raise RuntimeError(
                f"the groups {[p.name for p in partitions if p not in done]} depend on each other in a cycle: choose "
                "groups that follow one another")
        done[ready[0]] = None
    return list(done)


def submodule(m, partition: Partition, names, keep_names=True, tuples=False, keeps_node_names=False) -> GraphModule:
    """The nodes of a partition as a module of their own."""
    graph = Graph()
    env = {node: graph.placeholder(node.name if keep_names else f"arg_{k}") for k, node in enumerate(partition.inputs)}
    for node in partition.nodes:
        for used in node.all_input_nodes:
            if used not in env:
                env[used] = graph.node_copy(used)  # attributes belong to those who read them
        env[node] = graph.node_copy(node, env.__getitem__) if keeps_node_names else copy_unnamed(graph, node, env)
        if names is not None and node.op == "call_module":
            names[f"{partition.name}.{node.target}"] = node.target
    outputs = [env[n] for n in partition.outputs]
    graph.output(outputs[0] if len(outputs) == 1 and not tuples else tuple(outputs))
    return GraphModule(m, graph, partition.name)


def copy_unnamed(graph: Graph, node, env) -> Node:
    """Return a copy of a node that is named after its target."""
    made = graph.create_node(node.op, node.target, map_arg(node.args, env.__getitem__),
                             map_arg(node.kwargs, env.__getitem__), type_expr=node.type)
    made.meta = dict(node.meta)
    return made


def whole(m, graph: Graph, submodules: dict) -> Module:
    """Return the root module in which the split graph finds its submodules."""
    root = Module()
    for name, value in submodules.items():
        root.add_module(name, value)
    for node in graph.nodes:
        if node.op == "get_attr":
            value = operator.attrgetter(node.target)(m)
            where = root
            *path, last = node.target.split(".")
            for name in path:
                if not hasattr(where, name):
                    where.add_module(name, Module())
                where = getattr(where, name)
            setattr(where, last, value)
    return root
