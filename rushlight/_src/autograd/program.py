"""Gradients as one operator: in a trace its backward is derived immediately; on tensors the engine runs."""
from __future__ import annotations

from ..aot.joint import differentiate
from ..core import interpret
from ..core.interpret import recording
from ..core.kinds import P
from ..core.native import GradNode
from ..core.native.objects import FUNCTION
from ..core.op import make, op
from ..transforms.trace import Trace
from .backward import grad
from .slow_paths import without_hooks


@op(name="_gradients", method=False, composite=True)
def gradients(outputs, cotangents, inputs, again, recorded):
    """Return the gradients of ``outputs``, weighted by ``cotangents`` (None: one), with respect to ``inputs``; zeros
    for undefined gradients.

    ``again``: the outputs are differentiated once more; ``recorded``: the gradients are differentiated themselves.
    """
    trace = interpret.top()
    if not isinstance(trace, Trace):
        with without_hooks(inputs):  # which are nodes of their own
            found = grad(outputs, inputs, cotangents, retain_graph=again, create_graph=recorded, materialize_grads=True)
        return apart(found, cotangents)
    with recording(recorded):
        weights = [P.full(shape=tuple(o.shape), value=1, dtype=o.dtype) if g is None else g
                   for o, g in zip(outputs, cotangents)]
        # marks the start of the backward pass
        weights = [P.after(w, mark_of(o)) if o.numel() else w for w, o in zip(weights, outputs)]
        found = differentiate(trace.nodes, [o.node for o in outputs], weights, [i.node for i in inputs])
        return tuple(own(g, i) for g, i in zip(found, inputs))


@op(name="_leaf", method=False, composite=True)
def leaf(value):
    """Return the values as a leaf: gradients stop at it, and can be computed with respect to it."""
    if not isinstance(interpret.top(), Trace):
        return value.detach().requires_grad_()
    with recording(False):
        return P.copy(value)


def computed_again(run, signature, scalars):
    """An operator that saves only its arguments for the backward pass, in which ``run(values)`` recomputes the rest."""
    made = make("checkpoint", lambda *values, **named: tuple(run((*values, *named.values()))), None, signature, scalars)

    def vjp(g, y, *values):
        known = [one for one in g if one is not None]
        values = [v if v.weak else P.after(v, mark_of(known[0])) for v in values]
        trace = interpret.top()
        start = len(trace.nodes)
        with recording(True):
            results = run(values)
        wanted = [(r.node, one) for r, one in zip(results, g) if one is not None]
        return differentiate(trace.nodes[start:], [r for r, _ in wanted], [one for _, one in wanted],
                             [v.node for v in values])

    made.rules["vjp"] = vjp
    return made


def mark_of(value):
    """Return one element of a value, to order later nodes after the value."""
    rank = len(value.shape)
    return P.reshape(P.slice(value, starts=(0,) * rank, steps=(1,) * rank, shape=(1,) * rank), shape=())


def apart(gradients, others):
    """Return gradients that may be written: copies of those that share storage with each other, with ``others``, or
    have overlapping elements."""
    seen, found = {id(g._rush_storage) for g in others if g is not None}, []
    for g in gradients:
        found.append(g.contiguous() if not g.is_contiguous() else g.clone() if id(g._rush_storage) in seen else g)
        seen.add(id(g._rush_storage))
    return tuple(found)


def own(gradient, value):
    """Return a gradient in the dtype of its value, contiguous if that is; zeros for None."""
    if gradient is None:
        return P.full(shape=tuple(value.shape), value=0, dtype=value.dtype)
    gradient = P.convert(gradient, dtype=value.dtype)
    return P.copy(gradient) if value._rush_meta.contiguous and not gradient._rush_meta.contiguous else gradient


def ended(tensor):
    """Give the tensor a history that ends in tensors to which there are no other references."""
    return spent(tensor, lambda *gradients: ())


def spent(tensor, function=None):
    """Give the tensor a history that a backward pass has used up."""
    node = GradNode()
    node.kind, node.outputs, node.extra, node.function = FUNCTION, (tensor._rush_meta,), "CompiledBackward0", function
    node.edges = node.slots = ()
    tensor._rush_grad_node, tensor._rush_output, tensor._rush_needs_grad = node, 0, 1
    return tensor
