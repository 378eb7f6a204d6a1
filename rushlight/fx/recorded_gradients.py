"""Gradients requested while a function is traced on fake tensors: their operators are recorded after its own."""
from __future__ import annotations

from .._src.aot.alias import Recording
from .._src.aot.joint import differentiate
from .._src.autograd.backward import starting_gradient
from .._src.capture.unbacked import PICK
from .._src.core.interpret import recording
from .._src.core.kinds import P
from .._src.core.overriding import DisableTorchFunction
from .._src.graph.graph import Graph, call_node, map_nodes


def pulled(recorder, outputs, cotangents, inputs, create_graph: bool) -> list:
    """The gradients of recorded tensors with respect to others, weighted by ``cotangents`` (None: one): recorded
    tensors, None where nothing flows.  With ``create_graph`` they have a history of their own.

    Trace the operators recorded before, differentiate the trace, and record those of its nodes that the gradients
    need.  RuntimeError for a tensor without a history, and for weights that do not fit.
    """
    for tensor in outputs:
        if not tensor.requires_grad:
            raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
    if not all(tensor.requires_grad for tensor in inputs):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    cotangents = [starting_gradient(tensor, weight, place) if weight is not None or tensor.numel() != 1 else None
                  for place, (tensor, weight) in enumerate(zip(outputs, cotangents, strict=True))]
    trace, traced_as = retraced(recorder)
    with trace, recording(True):  # current values, with views recreated
        known = {traced_as[node].node: tensor for node, tensor in recorder.tensors.items()}
    with trace, recording(create_graph), DisableTorchFunction():
        weights = []
        for tensor, weight in zip(outputs, cotangents):
            given = (P.full(shape=tuple(tensor.shape), value=1, dtype=tensor.dtype) if weight is None
                     else trace.input(weight._rush_meta))
            if weight is not None:
                known[given.node] = weight
            weights.append(given)
        found = differentiate(trace.nodes, [traced_as[t.node].node for t in outputs], weights,
                              [traced_as[t.node].node for t in inputs])
        found = [None if g is None else P.convert(g, dtype=t.dtype) for g, t in zip(found, inputs)]
    wanted = [g.node for g in found if g is not None]
    with recording(create_graph):
        made = iter(replayed(Graph(trace.inputs, trace.nodes, wanted), known))
        return [None if g is None else next(made) for g in found]


def retraced(recorder):
    """(a trace of what was recorded, node -> its value there: a tuple where it has several results)."""
    trace = Recording()
    values = {node: trace.input(node.meta, weak=node.weak) for node in recorder.inputs}
    with trace, DisableTorchFunction():
        for node in recorder.nodes:
            args = map_nodes(node.args, values.__getitem__)
            with recording(node not in recorder.constants):
                values[node] = args[0][args[1]] if node.op is PICK else node.op(
                    *args, **{k: map_nodes((v,), values.__getitem__)[0] for k, v in node.params.items()})
    return trace, values


def replayed(graph, known) -> list:
    """Return the outputs of a graph with some known values; record those of its nodes that they need."""
    values, needed, pending = dict(known), set(), list(graph.outputs)
    while pending:
        node = pending.pop()
        if node not in values and node not in needed:
            needed.add(node)
            pending += node.used
    for node in graph.nodes:
        if node in needed:
            values[node] = call_node(node, map_nodes(node.args, values.__getitem__))
    return [values[node] for node in graph.outputs]
