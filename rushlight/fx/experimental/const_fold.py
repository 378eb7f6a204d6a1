"""Constant folding: nodes that do not depend on inputs are computed once, at the first call."""
from __future__ import annotations

import operator
import re

from ..._src.core.native import Tensor
from .. import Graph, GraphModule, symbolic_trace
from ..node import is_random, map_arg, writes

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


def get_unique_attr_name_in_module(mod_traced, name: str) -> str:
    """A name that no attribute of a module has, made of one by a number at its end.

    >>> import rushlight as torch
    >>> module = torch.nn.Module()
    >>> module.a, module.b_1 = 1, 1
    >>> get_unique_attr_name_in_module(module, "a"), get_unique_attr_name_in_module(module, "b_1")
    ('a_1', 'b_2')
    """
    name = re.sub(r"[^0-9a-zA-Z_]+", "_", name)
    name = f"_{name}" if name[0].isdigit() else name
    while hasattr(mod_traced, name):
        found = re.match(r"(.*)_(\d+)$", name)
        name = f"{name}_1" if found is None else f"{found[1]}_{int(found[2]) + 1}"
    return name


class FoldedGraphModule(GraphModule):
    """A module that reads the results of another, ``const_subgraph_module``, which runs before the first call."""

    def __init__(self, root, graph, const_subgraph=None, fx_const_folded_attrs_name=None,
                 device_for_folded_attrs="cpu"):
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.has_folding_been_run, self.fx_const_folded_attrs_name = False, fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args, **kwargs):
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self):
        """Computes what does not depend on inputs, if there is any."""
        from ..._src.core.exchange import tensor
        from ...nn import Parameter, ParameterList
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True

        def stored(value):
            if not isinstance(value, Tensor):
                value = tensor([float(value)])
            return Parameter(value.detach().to(self.device_for_folded_attrs), requires_grad=value.requires_grad)

        found = self.const_subgraph_module()
        made = ParameterList(map(stored, found)) if isinstance(found, (tuple, list)) else stored(found)
        setattr(self, self.fx_const_folded_attrs_name, made)


def constants(graph, skip):
    """The nodes that depend on no input; those that write, draw or are skipped do."""
    found = set()
    for node in graph.nodes:
        if node.op in ("placeholder", "output") or node.is_impure() or skip is not None and skip(node):
            continue
        if node.op == "call_function" and (writes(node.target) or is_random(node.target)):
            continue
        if node.op == "get_attr" or node.all_input_nodes and set(node.all_input_nodes) <= found:
            found.add(node)
    return found


def split_const_subgraphs(module, skip_folding_node_fn=None, device_for_folded_attrs="cpu"):
    """A FoldedGraphModule that computes what ``module`` does, what depends on no input once only.

    ``skip_folding_node_fn``: nodes for which it is true are computed at each call.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    folded = constants(traced.graph, skip_folding_node_fn)
    if not any(node.op != "get_attr" for node in folded):
        return FoldedGraphModule(traced, traced.graph)
    read = [n for n in folded if n.op != "get_attr" and any(user not in folded for user in n.users)]
    read.sort(key=list(traced.graph.nodes).index)
    inner, copies, needed = Graph(), {}, set(read)
    for node in reversed(traced.graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    for node in traced.graph.nodes:
        if node in needed:
            copies[node] = inner.node_copy(node, copies.__getitem__)
    results = tuple(copies[n] for n in read)
    inner.output(results[0] if len(results) == 1 else results)
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    outer, new = Graph(), {}
    for node in traced.graph.nodes:
        if node in read:
            new[node] = outer.get_attr(name)
            if len(read) > 1:
                new[node] = outer.call_function(operator.getitem, (new[node], read.index(node)))
        elif node.op == "output":
            outer.output(map_arg(node.args[0], new.__getitem__))
        elif node not in folded or node.op == "get_attr" and any(user not in folded for user in node.users):
            new[node] = outer.node_copy(node, new.__getitem__)
    from ...nn import Module
    setattr(traced, name, Module())  # there once it is folded
    made = FoldedGraphModule(traced, outer, inner, name, device_for_folded_attrs)
    delattr(traced, name)
    return made
