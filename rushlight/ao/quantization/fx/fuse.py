"""Layers in a row made one: batch norms go into the weights of the layer before, relu is kept with its layer."""
from __future__ import annotations

import copy

from ....nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, Linear, ReLU
from ....nn.functional import relu as relu_of_values
from ....nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from ...nn.intrinsic.modules import fused
from .kinds import subject

LAYERS = {Conv1d: (BatchNorm1d, fused.ConvReLU1d), Conv2d: (BatchNorm2d, fused.ConvReLU2d),
          Conv3d: (BatchNorm3d, fused.ConvReLU3d), Linear: (BatchNorm1d, fused.LinearReLU)}
# for training: a layer and its batch norm, and these with relu
NORMED = {Conv1d: (fused.ConvBn1d, fused.ConvBnReLU1d), Conv2d: (fused.ConvBn2d, fused.ConvBnReLU2d),
          Conv3d: (fused.ConvBn3d, fused.ConvBnReLU3d), Linear: (fused.LinearBn1d, None)}


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


def joined(layer, norm, relu, train):
    """A layer, the batch norm and the relu that follow (or None) as one module; ``train``: the batch norm is kept as a
    part."""
    kind = type(layer)
    with_relu = LAYERS[kind][1]
    if norm is None:
        return with_relu(copy.copy(layer), relu)
    if train:
        return NORMED[kind][relu is not None](*(m for m in (layer, norm, relu) if m is not None))
    layer = (fuse_linear_bn_eval if kind is Linear else fuse_conv_bn_eval)(layer, norm)
    return layer if relu is None else with_relu(layer, relu)


def fuse(model, train=False):
    """A GraphModule in which convolutions and linear layers hold their batch norms and relus; ``train``: as parts that
    go on learning (a linear layer and its batch norm have no form with relu)."""
    modules, calls = dict(model.named_modules(remove_duplicate=False)), {}
    for node in model.graph.nodes:
        if node.op == "call_module":
            calls[node.target] = calls.get(node.target, 0) + 1
    for node in list(model.graph.nodes):
        kind = subject(node, modules) if node.op == "call_module" else None
        if kind not in LAYERS or calls[node.target] > 1:
            continue
        layer, norm, relu, after = modules[node.target], None, None, follower(node)
        if after is not None and after.op == "call_module" and subject(after, modules) is LAYERS[kind][0] and calls[
                after.target] == 1:
            norm = modules[after.target]
            absorb(model.graph, after, node)
            after = follower(node)
        is_relu = after is not None and subject(after, modules) in (ReLU, relu_of_values)
        if is_relu and not (train and norm is not None and kind is Linear):
            relu = ReLU().train(train)
            absorb(model.graph, after, node)
        if norm is not None or relu is not None:
            made = joined(layer, norm, relu, train)
            made.training = train
            put(model, node.target, made)
    model.graph.lint()
    model.recompile()
    model.delete_all_unused_submodules()
    return model
