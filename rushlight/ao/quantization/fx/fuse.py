"""Layers in a row made one: batch norms go into the weights of the layer before, relu is kept with its layer."""
from __future__ import annotations

import copy

from ....nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, Linear, ReLU
from ....nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from ...nn.intrinsic.modules import fused
from .kinds import is_relu, subject

CONVOLUTIONS = {Conv1d: (BatchNorm1d, fused.ConvReLU1d), Conv2d: (BatchNorm2d, fused.ConvReLU2d),
                Conv3d: (BatchNorm3d, fused.ConvReLU3d)}
LAYERS = {**CONVOLUTIONS, Linear: (BatchNorm1d, fused.LinearReLU)}


def put(model, path, module):
    """Replaces a submodule."""
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)


def follower(node):
    """The only user of a node, or None."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def absorb(graph, node, into):
    """Removes a call whose result is that of another."""
    node.replace_all_uses_with(into)
    graph.erase_node(node)


def fuse(model, keeps=lambda name, kind: True):
    """A GraphModule in evaluation mode, in which convolutions and linear layers hold their batch norms and relus.
    ``keeps(path, class)``: whether two may be one."""
    modules, calls = dict(model.named_modules(remove_duplicate=False)), {}
    for node in model.graph.nodes:
        if node.op == "call_module":
            calls[node.target] = calls.get(node.target, 0) + 1
    for node in list(model.graph.nodes):
        kind = subject(node, modules) if node.op == "call_module" else None
        if kind not in LAYERS or calls[node.target] > 1:
            continue
        norm, with_relu = LAYERS[kind]
        layer, after = modules[node.target], follower(node)
        if after is not None and after.op == "call_module" and subject(after, modules) is norm and calls[
                after.target] == 1:
            layer = (fuse_linear_bn_eval if kind is Linear else fuse_conv_bn_eval)(layer, modules[after.target])
            absorb(model.graph, after, node)
            after = follower(node)
        if after is not None and is_relu(after, modules):
            layer = with_relu(copy.copy(layer), ReLU())
            absorb(model.graph, after, node)
        if layer is not modules[node.target]:
            layer.training = False
            put(model, node.target, layer)
    model.graph.lint()
    model.recompile()
    model.delete_all_unused_submodules()
    return model
