"""Finding a pattern, which is itself a graph, in another graph."""
from __future__ import annotations

import dataclasses

from .graph import Graph
from .node import Node, map_arg


@dataclasses.dataclass
class InternalMatch:
    """One place where a pattern was found: which node of the graph stands for each node of the pattern."""

    anchors: list
    nodes_map: dict = dataclasses.field(default_factory=dict)
    placeholder_nodes: list = dataclasses.field(default_factory=list)
    returning_nodes: list = dataclasses.field(default_factory=list)


def nodes_in(value) -> list:
    """The nodes of an argument."""
    found: list = []
    map_arg(value, found.append)
    return found


class SubgraphMatcher:
    """Finds a pattern graph in others: ``SubgraphMatcher(pattern).match(graph)``.

    Placeholders of the pattern stand for any value.  ``match_placeholder``: they stand for placeholders only.
    ``ignore_literals``: constants may differ.
    """

    def __init__(self, pattern: Graph, match_output=False, match_placeholder=False, remove_overlapping_matches=True,
                 ignore_literals=False):
        self.node_name_match = ""
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        output = pattern.output_node()
        self.pattern_placeholder_nodes = pattern.find_nodes(op="placeholder")
        self.pattern_returning_nodes = output.all_input_nodes
        self.pattern_anchors = [output] if match_output else [n for n in self.pattern_returning_nodes if len(n.users)
                                                              == 1]

    def match(self, graph: Graph, node_name_match: str = "") -> list:
        """Return the matches of the pattern in ``graph``, in order, without those that overlap an earlier one. Nodes
        with ``node_name_match`` in their names match any node of the pattern."""
        self.node_name_match = node_name_match
        partial = [InternalMatch([])]
        for anchor in self.pattern_anchors:
            candidates = [node for node in graph.nodes if self.alike(anchor, node)]
            partial = [made for before in partial for node in candidates
                       if (made := self.extended(before, anchor, node)) is not None]
        found = []
        for match in partial:
            match.placeholder_nodes = [match.nodes_map[p] for p in self.pattern_placeholder_nodes
                                       if p in match.nodes_map]
            match.returning_nodes = [match.nodes_map[r] for r in self.pattern_returning_nodes if r in match.nodes_map]
            if self.contained(match):
                found.append(match)
        return self.apart(found) if self.remove_overlapping_matches else found

    def extended(self, before: InternalMatch, anchor: Node, node: Node):
        """A match that also takes ``anchor`` as ``node``, or None."""
        made = InternalMatch([*before.anchors, node], dict(before.nodes_map))
        return made if self.same(anchor, node, made) else None

    def alike(self, pattern: Node, node: Node) -> bool:
        """Whether two nodes do the same, arguments apart."""
        if not self.match_placeholder and pattern.op == "placeholder":
            return True
        if self.node_name_match and self.node_name_match in node.name:
            return True
        if pattern.op != node.op:
            return False
        return pattern.op in ("placeholder", "output") or self.same_target(pattern, node)

    def same_target(self, pattern: Node, node: Node) -> bool:
        if (pattern.op == "call_module" and pattern.graph.owning_module is not None
            and node.graph.owning_module is not None):
            kinds = [type(n.graph.owning_module.get_submodule(n.target)) for n in (pattern, node)]
            return kinds[0] is kinds[1] or pattern.target == node.target
        return pattern.target == node.target

    def same(self, pattern: Node, node: Node, match: InternalMatch) -> bool:
        """Whether what leads to ``node`` is what leads to ``pattern``; notes the pairs in the match."""
        if pattern in match.nodes_map:
            return match.nodes_map[pattern] is node
        if node in match.nodes_map.values() and pattern.op != "placeholder" or not self.alike(pattern, node):
            return False
        match.nodes_map[pattern] = node
        if pattern.op == "placeholder":
            return True
        if self.same_value(pattern.args, node.args, match) and self.same_value(dict(pattern.kwargs), dict(node.kwargs),
                                                                               match):
            return True
        schema = getattr(pattern.target, "schema", None)
        if schema is not None:
            whole = [schema.whole(n.args, n.kwargs) for n in (pattern, node)]
            if None not in whole and self.same_value(*whole, match):
                return True
        normal = [n.normalized_arguments(n.graph.owning_module, normalize_to_only_use_kwargs=True)
                  for n in (pattern, node)] if pattern.op == "call_function" else [None]
        if None not in normal and self.same_value(normal[0].kwargs, normal[1].kwargs, match):
            return True
        del match.nodes_map[pattern]
        return False

    def same_value(self, pattern, value, match) -> bool:
        if isinstance(pattern, Node):
            if isinstance(value, Node):
                return self.same(pattern, value, match)
            if pattern.op == "placeholder" and not self.match_placeholder:
                return match.nodes_map.setdefault(pattern, value) == value
            return False
        if self.ignore_literals and not nodes_in(pattern) and not nodes_in(value):
            return True
        if isinstance(pattern, (tuple, list)):
            return isinstance(value, (tuple, list)) and len(pattern) == len(value) and all(self.same_value(p, v, match)
                                                                                           for p, v in zip(
                                                                                                   pattern, value))
        if isinstance(pattern, dict):
            return isinstance(value, dict) and pattern.keys() == value.keys() and all(
                self.same_value(pattern[k], value[k], match) for k in pattern)
        return not isinstance(value, Node) and type(pattern) is type(value) and pattern == value

    def contained(self, match: InternalMatch) -> bool:
        """Whether nothing outside reads a value that the replacement would not compute."""
        inside = {node for pattern, node in match.nodes_map.items() if isinstance(node, Node) and pattern.op
                  != "placeholder"}
        open_to_all = set(match.returning_nodes)
        return all(node in open_to_all or node.op == "get_attr" or all(user in inside for user in node.users)
                   for node in inside)

    def apart(self, found: list) -> list:
        """Matches that share no node with an earlier one."""
        taken, kept = set(), []
        for match in found:
            mine = {node for pattern, node in match.nodes_map.items() if isinstance(node, Node)
                    and pattern.op not in ("placeholder", "get_attr")}
            if not mine & taken:
                taken |= mine
                kept.append(match)
        return kept
