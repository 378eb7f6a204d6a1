"""Parts of a graph as modules."""
from __future__ import annotations

import operator

from ....nn.modules.module import Module
from ...graph_module import GraphModule
from .matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "lift_subgraph_as_module", "compare_graphs"]


class HolderModule(Module):
    """Modules by name."""

    def __init__(self, d):
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(gm, subgraph, comp_name: str = "", class_name: str = "GraphModule"):
    """A graph with the modules and attributes of ``gm`` that it uses as a module; and {their path there (below
    ``comp_name``): path in ``gm``}."""
    root, names = HolderModule({}), {}
    for node in subgraph.nodes:
        if node.op in ("call_module", "get_attr"):
            value, at = operator.attrgetter(node.target)(gm), root
            *path, last = node.target.split(".")
            for part in path:
                if not hasattr(at, part):
                    at.add_module(part, HolderModule({}))
                at = getattr(at, part)
            if not hasattr(at, last):
                setattr(at, last, value)
            names[f"{comp_name}.{node.target}" if comp_name else node.target] = node.target
    return GraphModule(root, subgraph, class_name), names


def compare_graphs(left, right) -> bool:
    """Whether two graphs compute the same with the same operators."""
    return bool(SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right))
