"""Graphs cut into modules by tags of their nodes."""
from __future__ import annotations

import copy
import dataclasses
import operator
from collections import defaultdict

from .. import Graph, GraphModule
from ..node import map_arg


@dataclasses.dataclass
class Component:
    """One part: its graph, its place among the parts, its name; which nodes of the whole it reads and gives."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list = dataclasses.field(default_factory=list)
    orig_inputs: list = dataclasses.field(default_factory=list)
    orig_outputs: list = dataclasses.field(default_factory=list)
    getattr_maps: dict = dataclasses.field(default_factory=dict)
    constructor_args: list = dataclasses.field(default_factory=list)
    gm: GraphModule | None = None


def getattr_recursive(obj, name: str):
    """The attribute of a path, None where there is none."""
    for part in name.split("."):
        if not hasattr(obj, part):
            return None
        obj = getattr(obj, part)
    return obj


def setattr_recursive(obj, attr: str, value):
    """Sets the attribute of a path; modules on the way are made."""
    from ...nn import Module
    *path, last = attr.split(".")
    for part in path:
        if not hasattr(obj, part):
            setattr(obj, part, Module())
        obj = getattr(obj, part)
    setattr(obj, last, value)


class Splitting:
    """One graph being cut."""

    def __init__(self, gm, tags):
        self.gm, self.parts = gm, {tag: Component(Graph(), k, tag) for k, tag in enumerate(tags)}
        self.main, self.new, self.of = Graph(), {}, {}  # nodes of the whole: in the main graph; their parts
        self.inside = defaultdict(dict)  # part -> node of the whole -> node of the part
        self.names = {}  # module of the whole -> its path in the result

    def enter(self, node):
        """Puts a node where it belongs."""
        if node.op == "placeholder":
            self.new[node] = self.main.placeholder(node.target, type_expr=node.type)
            self.new[node].meta = copy.copy(node.meta)
        elif node.op == "get_attr":
            pass  # made where it is read
        elif node.op != "output":
            if not hasattr(node, "tag"):
                raise AssertionError(f"Node does not have tag: {node.format_node()}")
            part = self.parts[node.tag]
            self.of[node] = part
            self.inside[part.name][node] = part.graph.node_copy(node, lambda read: self.read(part, read))
            if node.op == "call_module":
                self.names[node.target] = f"{part.name}.{node.target}"

    def read(self, part, node):
        """A node of the whole, as a part sees it: its own, an attribute, or an input."""
        known = self.inside[part.name]
        if node in known:
            return known[node]
        if node.op == "get_attr":
            known[node] = part.graph.get_attr(node.target)
            self.names[node.target] = f"{part.name}.{node.target}"
            return known[node]
        known[node] = made = part.graph.placeholder(node.name, type_expr=node.type)
        made.meta = copy.copy(node.meta)
        part.orig_inputs.append(node)
        part.input_placeholders.append(made)
        source = self.of.get(node)
        if source is not None and node not in source.orig_outputs:
            source.orig_outputs.append(node)
        return made

    def finish(self, output, kind, as_tuple=False):
        """The module of calls of the parts, which give their results in a tuple, or the only one as it is unless
        ``as_tuple``."""
        results = []
        map_arg(output.args[0], results.append)
        for node in results:
            if node in self.of and node not in self.of[node].orig_outputs:
                self.of[node].orig_outputs.append(node)
        root = {}
        for part in self.parts.values():
            given = tuple(self.inside[part.name][n] for n in part.orig_outputs)
            alone = len(given) == 1 and not as_tuple
            part.graph.output(given[0] if alone else given)
            part.gm = root[part.name] = kind(self.gm, part.graph)
            call = self.main.call_module(part.name, tuple(self.whole(n) for n in part.orig_inputs))
            if alone:
                self.new[part.orig_outputs[0]] = call
            for k, node in enumerate(() if alone else part.orig_outputs):
                self.new[node] = self.main.call_function(operator.getitem, (call, k))
        made = self.main.output(map_arg(output.args[0], self.whole))
        made.meta.update(output.meta)
        for node in results:
            if node.op == "get_attr":
                root[node.target] = getattr_recursive(self.gm, node.target)
        return kind(root, self.main)

    def whole(self, node):
        """A node of the whole in the main graph."""
        if node not in self.new and node.op == "get_attr":
            self.new[node] = self.main.get_attr(node.target)
        return self.new[node]


def split_by_tags(gm, tags, return_fqn_mapping=False, return_tuple=False, GraphModuleCls=GraphModule):  # noqa: N803
    """A module that calls one module for each tag, in the order of ``tags``; every call of ``gm``'s graph has the tag
    of one of them as ``node.tag``.  With ``return_fqn_mapping`` also where each module of ``gm`` is in it; with
    ``return_tuple`` each part gives a tuple, of one result, too.

    AssertionError for a node without a tag.
    """
    cut = Splitting(gm, tags)
    output = None
    for node in gm.graph.nodes:
        if node.op == "output":
            output = node
        cut.enter(node)
    made = cut.finish(output, GraphModuleCls, return_tuple)
    return (made, cut.names) if return_fqn_mapping else made


def move_non_tensor_nodes_on_boundary(subgraphs):
    """Moves nodes that give no tensors, and that a later part reads, to where they are read."""
    for later in subgraphs:
        for node in list(later.nodes):
            for read in node.all_input_nodes:
                source = next((s for s in subgraphs if s is not later and read in s.nodes), None)
                if (source is not None and "val" in read.meta and not hasattr(read.meta["val"], "shape")
                        and all(user in later.nodes for user in read.users)):
                    source.nodes.remove(read)
                    later.nodes.insert(0, read)
