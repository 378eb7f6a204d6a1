"""Modules made smaller for inference: normalizations folded into the layers before them, dropout taken out."""
from __future__ import annotations

import copy

from ...nn.modules import batchnorm, conv, dropout, linear
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from .._symbolic_trace import Tracer, symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule

PATTERNS = [((conv.Conv1d, batchnorm.BatchNorm1d), fuse_conv_bn_eval),
            ((conv.Conv2d, batchnorm.BatchNorm2d), fuse_conv_bn_eval),
            ((conv.Conv3d, batchnorm.BatchNorm3d), fuse_conv_bn_eval),
            ((linear.Linear, batchnorm.BatchNorm1d), fuse_linear_bn_eval)]


def _parent_name(target: str) -> tuple[str, str]:
    """The path of what holds an attribute, and the attribute's name."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern, node, modules) -> bool:
    """Whether a node calls a module of the pattern's last class on the result of one of its first."""
    nodes = (node.args[0] if node.args else None, node)
    return all(getattr(n, "op", None) == "call_module" and n.target in modules and type(modules[n.target]) is kind
               for kind, n in zip(pattern, nodes))


def replace_node_module(node, modules, new_module) -> None:
    """Puts a module in the place of the one that a node calls."""
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model, inplace: bool = False, no_trace: bool = False):
    """A module in which each BatchNorm is part of the convolution or linear layer before it, for evaluation.

    ``no_trace``: the module is a GraphModule already.  A BatchNorm without running statistics stays.

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.optimization import fuse
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).eval()
    >>> fused, x = fuse(model), torch.randn(1, 1, 4, 4)
    >>> [node.name for node in fused.graph.nodes], torch.allclose(fused(x), model(x), atol=1e-5)
    (['input_1', '_0', 'output'], True)
    """
    model = model if inplace else copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules, graph = dict(traced.named_modules()), copy.deepcopy(traced.graph)
    for pattern, together in PATTERNS:
        for node in list(graph.nodes):
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            layer, norm = modules[node.args[0].target], modules[node.target]
            if not norm.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, together(layer, norm))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(traced, graph)


def remove_dropout(model):
    """A module without its dropouts."""
    class Without(Tracer):
        def call_module(self, m, forward, args, kwargs):
            return args[0] if isinstance(m, dropout._DropoutNd) else super().call_module(m, forward, args, kwargs)

    return GraphModule(model, Without().trace(model))


def extract_subgraph(orig_module, nodes, inputs, outputs):
    """A module of these nodes, which takes what ``inputs`` gave and returns what ``outputs`` give."""
    graph, env = Graph(), {}
    for node in inputs:
        env[node] = graph.placeholder(node.name)
    for node in nodes:
        env[node] = graph.node_copy(node, env.__getitem__)
    graph.output([env[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def optimize_for_inference(model, pass_config=None, tracer=Tracer):
    """``fuse`` and ``remove_dropout``; layouts of other libraries (``mkldnn_layout_optimize``) are not used.
    ``pass_config``: {name of a pass: whether it runs}."""
    chosen = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    model = fuse(model) if chosen["conv_bn_fuse"] else model
    model = remove_dropout(model) if chosen["remove_dropout"] else model
    return model if isinstance(model, GraphModule) else GraphModule(model, tracer().trace(model))
