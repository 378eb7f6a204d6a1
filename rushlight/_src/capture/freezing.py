"""Freezing: values that depend only on parameters are computed once, when a graph is compiled for inference.

    before                                    after
    t0 = conv2d(x, weight, None)              t0 = conv2d(x, weight * scale, shift)
    t1 = _batch_norm_eval(t0, mean, var, ..)

Nodes with constant arguments become values; a batch norm after a convolution or a linear layer is folded into its
weights; templates pack constant weights once (``compiler/outline.py``). Later changes of parameters are ignored.
Values that the program writes to (``Graph.changed``) are computed each time, and the nodes that read them remain.
"""
from __future__ import annotations

import inspect
from collections import Counter

from ..autograd.mode import no_grad
from ..core.dtypes import float32
from ..core.native import Tensor, mine
from ..core.op import make
from ..graph.graph import Graph, Node, map_nodes, nodes_in
from .whole_layers import Layers

CHANNELS_FIRST = ("nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d", "nn.functional.linear")


class Frozen:
    """A compiled graph with the parameters it was made with; calls that record a derivative go to ``recorded``."""

    def __init__(self, graph: Graph, inputs, run, recorded, settings):
        self.recorded = recorded
        known = {node: value for node, value in zip(graph.inputs, inputs) if node in graph.held}
        with no_grad():
            rest, known = fold(graph, known)
        self.live = [k for k, node in enumerate(graph.inputs) if node not in graph.held]
        used = {n for node in rest.nodes for n in arguments(node)} | set(rest.outputs)
        constants = {node: value for node, value in known.items() if node in used}
        self.constants = list(constants.values())
        program = Graph([*(graph.inputs[k] for k in self.live), *constants], rest.nodes, rest.outputs)
        scalars = sum(1 << k for k, n in enumerate(program.inputs) if n.weak)
        signature = inspect.Signature([inspect.Parameter(n.name, inspect.Parameter.POSITIONAL_ONLY)
                                       for n in program.inputs])
        self.operator = make("compiled", lambda *values: tuple(run(program, values)), None, signature, scalars,
                             derived=program,
                             settings=settings, held=self.constants)

    def __call__(self, *inputs):
        if mine.grad and any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
            return self.recorded(*inputs)
        return self.operator(*(inputs[k] for k in self.live), *self.constants)


def fold(graph: Graph, known: dict):
    """Return the graph without constant nodes, and their values: {node: tensor}."""
    known, new, rest = dict(known), {}, []
    users = Counter(n for node in graph.nodes for n in arguments(node)) + Counter(graph.outputs)
    layers, swap = Layers(graph, known), lambda n: new.get(n, n)
    for node in graph.nodes:
        if settled(node, known) and not graph.changes(node):
            known[node] = node.op(*map_nodes(node.args, known.__getitem__),
                                  **{k: map_nodes(v, known.__getitem__) for k, v in node.params.items()})
            continue
        whole = None if graph.changes(*sources(node.args[:2])) else layers.whole(node, swap)
        if whole is not None:
            new[node] = whole
            rest.append(whole)
            continue
        layer = new.get(node.args[0]) if node.args and isinstance(node.args[0], Node) else None
        moved = layer is not None and users[node.args[0]] == 1 and not graph.changes(*sources(node.args))
        if moved and absorbs(layer, node, known):
            made = absorbed(layer, node, known)
            rest.remove(layer)
        else:
            made = Node(node.name, node.op, map_nodes(node.args, swap),
                        {k: map_nodes(v, swap) for k, v in node.params.items()}, node.meta,
                        node.inside, node.where, node.weak, node.constant)
        new[node] = made
        rest.append(made)
    return Graph(graph.inputs, *layers.finished(rest, [new.get(n, n) for n in graph.outputs])), known


def sources(args) -> list:
    """Return the nodes among these arguments, and those that they read."""
    read = list(nodes_in(args))
    return [*read, *(n for other in read for n in arguments(other))]


def arguments(node: Node) -> list:
    """Return the nodes that a node reads."""
    return list(nodes_in((node.args, tuple(node.params.values()))))


def settled(node: Node, known) -> bool:
    """True if a node returns the same value in every run."""
    read = arguments(node)
    return bool(read) and all(n in known for n in read) and not node.op.traits.get("random") and node.op.traits.get(
        "into") is None


def absorbs(layer: Node, norm: Node, known) -> bool:
    """True if a node is a batch norm with constant statistics over the channels of the layer before it, whose weights
    are constant."""
    if norm.op.name != "_batch_norm_eval" or layer.op.name not in CHANNELS_FIRST or not isinstance(layer.meta.shape,
                                                                                                   tuple):
        return False
    if layer.op.name == "nn.functional.linear" and len(layer.meta.shape) != 2:
        return False
    weights = [n for n in (*layer.args[1:3], *norm.args[1:5]) if n is not None]
    return len(layer.args) > 2 and all(n in known for n in weights)


def absorbed(layer: Node, norm: Node, known) -> Node:
    """Return the layer with the batch norm folded into its weights, which become constants."""
    weight, bias, mean, var, gain, shift = (n if n is None else known[n] for n in (*layer.args[1:3], *norm.args[1:5]))
    scale = (var.to(float32) + norm.args[5]).rsqrt()
    scale = scale if gain is None else scale * gain
    offset = (0 if bias is None else bias) - mean
    offset = offset * scale if shift is None else offset * scale + shift
    made = []
    for name, value in (("weight", weight * scale.reshape(-1, *[1] * (weight.dim() - 1))), ("bias", offset)):
        node = Node(f"{norm.name}_{name}", None, meta=value.to(weight.dtype)._rush_meta)
        known[node] = value.to(weight.dtype)
        made.append(node)
    return Node(norm.name, layer.op, (layer.args[0], *made, *layer.args[3:]), layer.params, norm.meta)
