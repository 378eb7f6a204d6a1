"""Public functions that run the backward engine: ``backward`` and ``grad``."""
from __future__ import annotations

from threading import get_ident

from ..core.advice import deprecated, warn
from ..core.composed import Composed
from ..core.errors import NoHistoryError, NotScalarError
from ..core.interpret import carrying, is_checkpoint_valid, top
from ..core.native import GradNode, Scope, Tensor, engine, held, history, mine, state
from ..core.native.hooks import connect
from ..core.native.objects import ACCUMULATE, DERIVED
from ..core.native.scopes import AUTOCAST, GRAD, HOOKS, INFERENCE, MODES, PACKING, PLAIN, STACK
from ..core.op import OPS
from ..core.overriding import DISPATCH, kind_of
from ..core.tensor import empty_of
from . import hooks  # noqa: F401 - gives tensors their hooks
from .conforming import conform
from .mutation import mutate, refresh
from .node import GradientEdge
from .reached import partly_reached
from .slow_paths import (accumulate, add_to, call_function, derive_recorded, freed, full_of, run_hooks, run_posthooks,
                    run_prehooks, stale, unreached)


def starting_gradients(tensors, gradients) -> list:
    """Initial gradients of a backward pass: one for each of its roots.  RuntimeError for another number of them."""
    if len(tensors) != len(gradients):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(gradients)} gradients")
    return [starting_gradient(tensor, gradient, place)
            for place, (tensor, gradient) in enumerate(zip(tensors, gradients))]


def starting_gradient(tensor, gradient, place=0):
    if gradient is None:
        if isinstance(tensor, GradientEdge):
            return starting_gradient(stand_in(tensor.node, tensor.output_nr), None, place)
        if tensor.numel() != 1:
            raise NotScalarError(
                f"grad can be implicitly created only for scalar outputs, not for one of shape {list(tensor.shape)}",
                "a single element, or weights",
                "call .sum() or .mean() first, or give backward() a gradient of that shape")
        if tensor.is_complex():
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {tensor.dtype}")
        if kind_of(type(tensor)) & DISPATCH:
            return OPS["ones_like"](tensor.detach())
        return full_of(tensor._rush_meta, 1)
    if not isinstance(gradient, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    if isinstance(tensor, GradientEdge):
        return starting_gradient(stand_in(tensor.node, tensor.output_nr), gradient, place)
    if tuple(gradient.shape) != tuple(tensor.shape):
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{place}] has a shape of {gradient.shape} and output[{place}] has a shape "
            f"of {tensor.shape}.")
    if gradient.is_complex() != tensor.is_complex():
        raise RuntimeError(
            f"For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output has a dtype of {gradient.dtype} and output has a dtype of {tensor.dtype}.")
    return gradient if gradient.dtype is tensor.dtype else gradient.to(tensor.dtype)


def stand_in(node, output_nr):
    """Return a tensor like the output of a node whose gradient a GradientEdge requests."""
    node = node.grad_node
    metas = (node.variable._rush_meta,
             ) if node.kind == ACCUMULATE else node.plan.outputs if node.kind == DERIVED else node.outputs
    return empty_of(metas[output_nr])


def edge_of(tensor):
    """Return the node that receives the gradient of this tensor (or GradientEdge), None if it requires none, and the
    index of the node's output."""
    if isinstance(tensor, GradientEdge):
        return tensor.node.grad_node, tensor.output_nr
    return history.edge(tensor), tensor._rush_output if tensor._rush_grad_node is not None else 0


def keeps_graph() -> bool:
    """True if this thread's backward pass retains saved tensors, and outside of a backward pass."""
    return mine.run is None or bool(mine.run.retain)


class Passing(Scope):
    """A block around a backward pass: what its hooks and functions enter or set ends with it."""

    def __enter__(self):
        self.tangents = carrying.on
        self.outer = held(GRAD | INFERENCE | AUTOCAST | PLAIN | PACKING | STACK | MODES | HOOKS, self.outer, None)

    def after(self):
        carrying.on = self.tangents


def launch(tensors, gradients, retain, create, inputs, accumulate):
    """Run the engine once; return the run and the gradients captured for ``inputs``: all of them without
    ``accumulate``, else those of non-leaf inputs."""
    roots = []
    for tensor, gradient in zip(tensors, gradients):
        node, slot = edge_of(tensor)
        if node is None:
            raise NoHistoryError("element 0 of tensors does not require grad and does not have a grad_fn",
                                 "a result computed from tensors that require gradients",
                                 "set requires_grad=True on the inputs, and compute outside no_grad()")
        roots.append((node, slot, gradient))
    run = engine.Run()
    run.retain, run.create, run.accumulate, run.queue, run.thread = int(retain), int(create), int(
        accumulate), [], get_ident()
    if inputs is not None:
        run.captures, run.captured = {}, [None] * len(inputs)
        for place, tensor in enumerate(inputs):
            node, slot = edge_of(tensor)
            if node is None:
                raise RuntimeError("One of the differentiated Tensors does not require grad")
            run.captures.setdefault(node, []).append((slot, place))
        run.needed = reaching([r[0] for r in roots], set(run.captures))
        if accumulate:
            leaves = [node for node in run.captures if node.kind == ACCUMULATE]
            run.needed.update(leaves)
            for node in leaves:
                del run.captures[node]
    first = list(dict.fromkeys(node for node, _, _ in roots))
    try:
        engine.begin(run, first)
        for node, slot, gradient in roots:
            engine.deliver(run, node, slot, gradient)
        with Passing():
            engine.drive(run, first)
            if run.callbacks is not None:
                call_back(run)
    except Exception:
        if state.anomaly:
            from .anomaly import explain
            explain()
        raise
    finally:
        engine.end(run, first)
    return run


def call_back(run):
    """Call the callbacks queued during a backward pass; they may queue more."""
    for callback in run.callbacks:
        callback()


class Engine:
    """Queries to the engine of the backward pass that is running in this thread."""

    @staticmethod
    def queue_callback(callback):
        """Call a function at the end of the backward pass.  RuntimeError outside of one."""
        run = mine.run
        if run is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        run.callbacks = run.callbacks or []
        run.callbacks.append(callback)

    is_checkpoint_valid = staticmethod(is_checkpoint_valid)


def reaching(roots, targets) -> set:
    """Return the nodes from which a target can be reached."""
    order, seen, stack = [], set(), list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        order.append(node)
        stack.extend(e for e in node.edges if e is not None)
    found = set(targets)
    order.sort(key=lambda s: s.number if s.kind != ACCUMULATE else -1)
    for node in order:
        if any(e in found for e in node.edges if e is not None):
            found.add(node)
    return found - {t for t in targets if not any(e in found for e in t.edges if e is not None)}


def will_execute(run: engine.Run, node: GradNode) -> bool:
    """True if a backward pass executes ``node`` or returns its gradient.  RuntimeError for a leaf whose gradient it
    returns, which PyTorch refuses to answer for."""
    if run.captures is not None and node in run.captures:
        if node.kind == ACCUMULATE:
            raise RuntimeError("A leaf node was passed to _will_engine_execute_node but we are currently running "
                               "autograd.grad(). This is currently not supported.")
        return True
    if run.needed is not None:
        return node in run.needed
    # a backward pass nested in this one takes over the entries of nodes that both reach
    return node.epoch == run.epoch or run.kept is not None and node in run.kept


def as_tuple(value):
    """Return one tensor (or GradientEdge), or any iterable of them, as a tuple."""
    if value is None:
        return None
    return (value,) if isinstance(value, (Tensor, GradientEdge)) else tuple(value)


def differentiable(inputs) -> tuple:
    """Return the inputs to differentiate as a tuple.  RuntimeError for anything but tensors and GradientEdges."""
    inputs = as_tuple(inputs)
    for value in inputs:
        if not isinstance(value, (Tensor, GradientEdge)):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(value).__name__}")
    return inputs


class Whole:
    """Replacement of the engine for backward passes, if any: ``run(tensors, gradients, retain)``."""

    run = None


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Accumulate into ``.grad`` of leaves the gradients of ``tensors``, weighted by ``grad_tensors`` (older name:
    ``grad_variables``).  RuntimeError if both are given."""
    if grad_variables is not None:
        deprecated("grad_variables", "grad_tensors", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError("grad_tensors and grad_variables (deprecated) arguments both passed to backward(): "
                               "please only use grad_tensors")
        grad_tensors = grad_variables
    tensors = as_tuple(tensors)
    gradients = as_tuple(grad_tensors) or (None,) * len(tensors)
    if any(isinstance(value, Composed) for value in (*tensors, *gradients)) and len(gradients) == len(tensors):
        gradients, tensors = tuple(map(inmost_gradient, tensors, gradients)), tuple(map(inmost, tensors))
    gradients = starting_gradients(tensors, gradients)
    retain = create_graph if retain_graph is None else retain_graph
    if create_graph:
        warn("backward() with create_graph=True makes a reference cycle between a parameter and its gradient, which "
             "can leak memory: use autograd.grad() instead, or set the "
             ".grad of parameters to None when they are no longer needed.")
    if inputs is None:
        if Whole.run is not None and not create_graph and not state.anomaly:
            Whole.run(tensors, gradients, retain)
            return
        launch(tensors, gradients, retain, create_graph, None, True)
        return
    inputs = differentiable(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    run = launch(tensors, gradients, retain, create_graph, inputs, True)
    for tensor, gradient in zip(inputs, run.captured):
        if gradient is not None and isinstance(tensor, Tensor):
            add_to(tensor, gradient, int(create_graph))


def inmost(value):
    """Return the tensor through which gradients flow: the values inside of a sparse or nested one."""
    return inmost(value.inner) if isinstance(value, Composed) else value


def inmost_gradient(output, gradient):
    """Return a gradient of an output as one of the tensor through which gradients flow."""
    if isinstance(output, Composed) and isinstance(gradient, Tensor):
        return inmost_gradient(output.inner, output.inner_gradient(gradient))
    if isinstance(gradient, Composed) and not (gradient.is_sparse and isinstance(output, Tensor) and output.is_leaf):
        return gradient.as_gradient()
    return gradient  # a leaf keeps a COO gradient unchanged


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None,
         is_grads_batched=False, materialize_grads=False):
    """The gradients of ``outputs`` with respect to ``inputs``, as a tuple."""
    outputs, inputs = as_tuple(outputs), differentiable(inputs)
    if not inputs:
        raise RuntimeError("grad needs inputs: `inputs` is empty")
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    gradients = as_tuple(grad_outputs) or (None,) * len(outputs)
    level = top()
    if getattr(level, "takes_contexts", False) and len(gradients) == len(outputs):
        return grad_of_duals(level, outputs, inputs, gradients, retain_graph, create_graph,
                             allow_unused=allow_unused, is_grads_batched=is_grads_batched,
                             materialize_grads=materialize_grads)
    if is_grads_batched:
        for output, rows in zip(outputs, gradients):
            if rows is not None and tuple(rows.shape[1:]) != tuple(output.shape):
                raise RuntimeError(
                    "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                    "dimension, and the others must be those of the "
                    f"output: got {list(rows.shape)} and {list(output.shape)}")
        from ..transforms.vmap import vmap
        return vmap(lambda *rows: grad(outputs, inputs, rows, retain_graph, create_graph, only_inputs, allow_unused,
                                       False, materialize_grads))(*gradients)
    shown = inputs
    gradients = tuple(map(inmost_gradient, outputs, gradients)) if len(gradients) == len(outputs) else gradients
    outputs, inputs = (tuple(map(inmost, values)) for values in (outputs, inputs))
    pull = getattr(top(), "pull", None)  # an interpreter that records fake tensors
    if pull is not None:
        found = pull(outputs, gradients, inputs, create_graph)
    else:
        retain = create_graph if retain_graph is None else retain_graph
        found = launch(outputs, starting_gradients(outputs, gradients), retain, create_graph, inputs, False).captured
    out = []
    for like, tensor, gradient in zip(shown, inputs, found):
        if gradient is None and materialize_grads:
            if isinstance(tensor, GradientEdge):
                raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
            gradient = full_of(tensor._rush_meta, 0)
            gradient.requires_grad = create_graph
        elif gradient is None and not allow_unused:
            raise RuntimeError(
                "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True "
                "if this is "
                "the desired behavior.")
        out.append(gradient if like is tensor or gradient is None else like.gradient(gradient))
    return tuple(out)


def grad_of_duals(level, outputs, inputs, gradients, retain_graph, create_graph, **options):
    """``grad`` in a ``dual_level`` block: gradients carry tangents, those of the gradients in the direction of the
    tangents, by reverse mode over what the outputs' tangents were computed from (so those of a tangent itself carry
    none)."""
    outputs, inputs, gradients = ([(v.current().value, v.tangent) if level.owns(v) else (v, None) for v in values]
                                  for values in (outputs, inputs, gradients))
    pushed = []  # (a tensor, its weight): the tangent of the outputs, weighted and summed, as such a sum
    for (output, tangent), (weight, weight_tangent) in zip(outputs, gradients):
        if tangent is not None and tangent.requires_grad:
            pushed.append((tangent, weight))
        if weight_tangent is not None:
            pushed.append((output, weight_tangent))
    values = [value for value, _ in inputs]
    with level.below():
        tangents = [None] * len(values)
        if pushed:
            tangents = grad([t for t, _ in pushed], values, [w for _, w in pushed], True, create_graph,
                            **{**options, "allow_unused": True, "materialize_grads": False})
        found = grad([output for output, _ in outputs], values, [weight for weight, _ in gradients],
                     create_graph if retain_graph is None else retain_graph, create_graph, **options)
    return tuple(g if g is None or t is None else level.kind(level, g, t) for g, t in zip(found, tangents))


def _tensor_backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Accumulate into ``.grad`` of leaves the gradient of this tensor."""
    if not self.requires_grad:
        raise NoHistoryError("element 0 of tensors does not require grad and does not have a grad_fn",
                             "a result computed from tensors that require gradients",
                                 "set requires_grad=True on the inputs, and compute outside no_grad()")
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


Tensor.backward = _tensor_backward


def activate():
    """Connect the engine with its slow paths."""
    from . import anomaly, lending, saved  # noqa: F401 - each sets a hook of its own
    connect("_src/autograd/backward.py", accumulate=accumulate, unreached=unreached, run_hooks=run_hooks,
            run_prehooks=run_prehooks, run_posthooks=run_posthooks, call_function=call_function, freed=freed,
            partly_reached=partly_reached, stale=stale, derive_recorded=derive_recorded, mutate=mutate, refresh=refresh,
            add=OPS["add"], conform=conform,
            zeros=lambda meta: full_of(meta, 0))
