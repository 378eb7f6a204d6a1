"""Replacement of all matches of a pattern in a graph."""
from __future__ import annotations

import copy
import dataclasses
from typing import NamedTuple

from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, copy_path
from .matching import SubgraphMatcher
from .node import Node

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """A replaced match: ``anchor`` is the node of its result, ``nodes_map`` maps the pattern's nodes to the graph's."""

    anchor: Node
    nodes_map: dict


@dataclasses.dataclass
class ReplacedPatterns:
    """As Match, with the nodes that came in."""

    anchor: Node
    nodes_map: dict
    replacements: list


def graph_of(pattern) -> Graph:
    """The graph of a pattern: a graph, a graph module, or what is traced."""
    if isinstance(pattern, Graph):
        return pattern
    return pattern.graph if isinstance(pattern, GraphModule) else symbolic_trace(pattern).graph


def replace_pattern(gm: GraphModule, pattern, replacement) -> list:
    """Replaces every place in ``gm`` that does what ``pattern`` does by ``replacement``: functions of the same
    parameters, graphs or modules.

    The list of Matches.  The graph is changed in place and compiled again.

    >>> import rushlight as torch
    >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + torch.relu(x * 2))
    >>> len(torch.fx.replace_pattern(module, lambda v: torch.relu(v), lambda v: torch.sigmoid(v)))
    2
    """
    return [Match(m.anchor, m.nodes_map) for m in replace_pattern_with_filters(gm, pattern, replacement)]


def replace_pattern_with_filters(gm: GraphModule, pattern, replacement=None, match_filters=None,
                                 ignore_literals: bool = False, replacement_callback=None,
                                 node_name_match: str = "") -> list:
    """As ``replace_pattern``; ``match_filters`` are functions of (match, graph, pattern graph) that must all agree.

    ``replacement_callback(match, graph, pattern graph)`` gives a graph for each match instead of ``replacement``.
    ReplacedPatterns.
    """
    pattern_graph = graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    found = [m for m in matcher.match(gm.graph, node_name_match)
             if all(keep(m, gm.graph, pattern_graph) for keep in match_filters or ())]
    fixed = graph_of(replacement) if replacement is not None else None
    moved: dict = {}  # replaced nodes -> their replacements
    replaced = []
    for match in found:
        new = fixed if replacement_callback is None else replacement_callback(match, gm.graph, pattern_graph)
        replaced.append(put_in(gm, matcher, match, new, moved))
    take_members(gm, replacement)
    gm.recompile()
    return replaced


def put_in(gm, matcher, match, new: Graph, moved) -> ReplacedPatterns:
    """Puts a replacement in at one match."""
    graph = gm.graph

    def now(value):
        while isinstance(value, Node) and value in moved:
            value = moved[value]
        return value

    if any(node.target == "_guards_fn" for node in new.nodes):  # checks of what an exported replacement was made for
        new = copy.deepcopy(new)
        for node in new.find_nodes(op="call_module", target="_guards_fn"):
            new.erase_node(node)
    inputs = new.find_nodes(op="placeholder")
    given = [now(match.nodes_map.get(p)) for p in matcher.pattern_placeholder_nodes]
    if len(inputs) != len(given):
        raise AssertionError(
            f"the replacement takes {len(inputs)} inputs, the pattern {len(given)}: both need the same parameters")
    inside = {n for p, n in match.nodes_map.items() if isinstance(n, Node) and p.op != "placeholder"}
    readers = {user for node in match.returning_nodes for user in node.users if user not in inside}
    with graph.inserting_before(first_of(graph, readers) or graph.output_node()):
        values = dict(zip(inputs, given))
        result = graph.graph_copy(new, values)
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(results) != len(match.returning_nodes):
        raise AssertionError(
            f"the replacement returns {len(results)} values, the pattern {len(match.returning_nodes)}: both must "
            "return the same number")
    for old, made in zip(match.returning_nodes, results):
        old.replace_all_uses_with(made, delete_user_cb=lambda user: user not in inside)
        moved[old] = made
    for node in reversed(list(graph.nodes)):
        if node in inside and not node.users:
            graph.erase_node(node)
    return ReplacedPatterns(match.anchors[0], match.nodes_map,
                            [values[n] for n in new.nodes if n in values and n.op not in ("placeholder", "output")])


def first_of(graph, nodes):
    """The first of some nodes in a graph's order."""
    return next((node for node in graph.nodes if node in nodes), None)


def take_members(gm, replacement):
    """Gives the module what a replacement that is a module brings along, and drops what is not called any more."""
    gm.delete_all_unused_submodules()
    owner = replacement if hasattr(replacement, "named_modules") else None
    for node in gm.graph.nodes:
        if owner is not None and node.op in ("call_module", "get_attr"):
            try:
                gm.get_submodule(node.target) if node.op == "call_module" else getattr_path(gm, node.target)
            except AttributeError:
                copy_path(copy.deepcopy(owner), gm, node.target)


def getattr_path(owner, path):
    for part in path.split("."):
        owner = getattr(owner, part)
    return owner
