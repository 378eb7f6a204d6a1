"""Running the backward engine: ``backward``, ``grad``, and the engine's slow paths."""
from __future__ import annotations

import sys

from ..core.kinds import sum_to  # noqa: F401  (gradients of broadcasting live there)
from ..core.errors import GraphFreedError, LeafWrittenError, NoHistoryError, NotScalarError, StaleValueError
from ..core.interpret import recording
from ..core.meta import Meta, span
from ..core.native import Plan, Step, Tensor, calls, engine, state
from ..core.native.objects import ACCUMULATE, FUNCTION
from ..core.op import OPS
from ..core.tensor import alias, attach, empty_of
from .node import GradientEdge


def starting_gradient(tensor, gradient, create_graph):
    if gradient is None:
        if isinstance(tensor, GradientEdge):
            raise RuntimeError("grad can be implicitly created only for scalar outputs: give a gradient for a GradientEdge")
        if tensor.numel() != 1:
            raise NotScalarError(f"grad can be implicitly created only for scalar outputs, not for one of shape {list(tensor.shape)}", "a single element, or weights",
                                 "call .sum() or .mean() first, or give backward() a gradient of that shape")
        if tensor.is_complex():
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {tensor.dtype}")
        return full_of(tensor.meta, 1)
    if not isinstance(gradient, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    if isinstance(tensor, GradientEdge):
        return gradient
    if tuple(gradient.shape) != tuple(tensor.shape):
        raise RuntimeError(f"Mismatch in shape: grad_output[0] has a shape of {list(gradient.shape)} and output[0] has a shape of {list(tensor.shape)}.")
    if gradient.is_complex() != tensor.is_complex():
        raise RuntimeError(f"For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
                           f"grad_output has a dtype of {gradient.dtype} and output has a dtype of {tensor.dtype}.")
    return gradient


def full_of(meta: Meta, value):
    return OPS["_filled"](value, tuple(meta.shape), meta.dtype)


def edge_of(tensor):
    """The step that a gradient of this tensor (or GradientEdge) goes to, None if it wants none, and which result of the step it is."""
    if isinstance(tensor, GradientEdge):
        return tensor.node.step, tensor.output_nr
    return calls.edge(tensor), tensor.output if tensor.step is not None else 0


def launch(tensors, gradients, retain, create, inputs, accumulate):
    """One run of the engine; returns the gradients captured for ``inputs``."""
    roots = []
    for tensor, gradient in zip(tensors, gradients):
        step, slot = edge_of(tensor)
        if step is None:
            raise NoHistoryError("element 0 of tensors does not require grad and does not have a grad_fn", "a result computed from tensors that require gradients",
                                 "set requires_grad=True on the inputs, and compute outside no_grad()")
        roots.append((step, slot, gradient))
    run = engine.Run()
    run.retain, run.create, run.accumulate, run.queue = int(retain), int(create), int(accumulate), []
    if inputs is not None:
        run.captures, run.captured = {}, [None] * len(inputs)
        for place, tensor in enumerate(inputs):
            step, slot = edge_of(tensor)
            if step is None:
                raise RuntimeError("One of the differentiated Tensors does not require grad")
            run.captures.setdefault(step, []).append((slot, place))
        run.needed = reaching([r[0] for r in roots], set(run.captures))
    steps = [step for step, _, _ in roots]
    engine.count_pending(steps)
    first = []
    for step, slot, gradient in roots:
        engine.deliver(step, slot, gradient)
        if step not in first:
            first.append(step)
    try:
        engine.drive(run, first)
    except Exception:
        if state.anomaly:
            from .anomaly import explain
            explain()
        raise
    finally:
        for step in first:
            step.buffer = None
    return run


def reaching(roots, targets) -> set:
    """The steps from which a target can be reached."""
    order, seen, stack = [], set(), list(roots)
    while stack:
        step = stack.pop()
        if step in seen:
            continue
        seen.add(step)
        order.append(step)
        stack.extend(e for e in step.edges if e is not None)
    found = set(targets)
    order.sort(key=lambda s: s.number if s.kind != ACCUMULATE else -1)
    for step in order:
        if any(e in found for e in step.edges if e is not None):
            found.add(step)
    return found - {t for t in targets if not any(e in found for e in t.edges if e is not None)}


def as_tuple(value):
    if value is None:
        return None
    if isinstance(value, GradientEdge):
        return (value,)
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


class Whole:
    """What runs backward passes instead of the engine, if anything: ``run(tensors, gradients, retain)``."""

    run = None


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Accumulates into ``.grad`` of leaves the gradients of ``tensors`` (weighted by ``grad_tensors``)."""
    tensors = as_tuple(tensors)
    gradients = as_tuple(grad_tensors) or (None,) * len(tensors)
    gradients = [starting_gradient(t, g, create_graph) for t, g in zip(tensors, gradients)]
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        if Whole.run is not None and not create_graph and not state.anomaly:
            Whole.run(tensors, gradients, retain)
            return
        launch(tensors, gradients, retain, create_graph, None, True)
        return
    inputs = as_tuple(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    run = launch(tensors, gradients, retain, create_graph, inputs, False)
    for tensor, gradient in zip(inputs, run.captured):
        if gradient is not None:
            accumulate(tensor, gradient, int(create_graph))


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None,
         is_grads_batched=False, materialize_grads=False):
    """The gradients of ``outputs`` with respect to ``inputs``, as a tuple."""
    outputs, inputs = as_tuple(outputs), as_tuple(inputs)
    gradients = as_tuple(grad_outputs) or (None,) * len(outputs)
    if is_grads_batched:
        from ..func.batching import vmap
        return vmap(lambda *rows: grad(outputs, inputs, rows, retain_graph, create_graph, only_inputs, allow_unused, False, materialize_grads))(*gradients)
    gradients = [starting_gradient(t, g, create_graph) for t, g in zip(outputs, gradients)]
    retain = create_graph if retain_graph is None else retain_graph
    run = launch(outputs, gradients, retain, create_graph, inputs, False)
    out = []
    for tensor, gradient in zip(inputs, run.captured):
        if gradient is None and materialize_grads:
            gradient = full_of(tensor.meta, 0)
        elif gradient is None and not allow_unused:
            raise RuntimeError("One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is "
                               "the desired behavior.")
        out.append(gradient)
    return tuple(out)


def _tensor_backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Accumulates into ``.grad`` of leaves the gradient of this tensor."""
    if not self.requires_grad:
        raise NoHistoryError("element 0 of tensors does not require grad and does not have a grad_fn", "a result computed from tensors that require gradients",
                                 "set requires_grad=True on the inputs, and compute outside no_grad()")
    backward(self, gradient, retain_graph, create_graph, inputs)


Tensor.backward = _tensor_backward


# --- the engine's slow paths ------------------------------------------------------------------------------------------------------
def accumulate(leaf: Tensor, gradient: Tensor, create: int):
    """Adds a gradient to a leaf's ``.grad``; to one that wants none any more, nothing."""
    if not leaf.needs_grad:
        return
    if leaf.hooks:
        for hook in list(leaf.hooks.values()):
            changed = hook(gradient)
            gradient = gradient if changed is None else changed
    if gradient.dtype is not leaf.dtype:
        gradient = gradient.to(leaf.dtype)
    known = leaf.gradient
    if known is None:
        leaf.gradient = gradient if create else keep(gradient, leaf)
    elif create or known.needs_grad:
        leaf.gradient = state.add(known, gradient)
    else:
        OPS["add_"](known, gradient)
    for hook in list(getattr(leaf, "_post_accumulate_hooks", {}).values()):
        hook(leaf)


ENGINE_HOLDS = 5  # references to a gradient that nobody but the engine holds, as ``keep`` counts them


def keep(gradient: Tensor, leaf: Tensor) -> Tensor:
    """The first gradient of a leaf, as memory of its own: gradients may be shared between leaves, or be expanded views."""
    alone = sys.getrefcount(gradient) <= ENGINE_HOLDS and sys.getrefcount(gradient.storage) == 2
    if alone and gradient.step is None and gradient.base is None and gradient.meta.contiguous and not gradient.needs_grad:
        return gradient
    return OPS["clone"](gradient).detach()


def run_hooks(step: Step, gradients):
    gradients = list(gradients)
    for hook in list(step.hooks.values()):
        changed = hook(gradients)
        gradients = gradients if changed is None else changed
    return gradients


def run_posthooks(step: Step, results, gradients):
    for hook in list(step.posthooks.values()):
        changed = hook(results, tuple(gradients))
        results = results if changed is None else changed if isinstance(changed, tuple) else (changed,)
    return results


def call_function(step: Step, gradients, retain):
    if step.function is None:
        freed(step)
    gradients = list(gradients) + [None] * (len(step.outputs or ()) - len(gradients))
    results = step.function(*gradients)
    if not retain and not step.extra:
        step.function = None
    return results


def freed(step):
    raise GraphFreedError("Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed): a backward "
                          "pass frees what the graph keeps", "one backward pass for each forward pass",
                          "Specify retain_graph=True for the first of them, or compute the loss again")


def stale(step, k):
    tensor = step.saved[k]
    raise StaleValueError(f"one of the variables needed for gradient computation has been modified by an inplace operation: [{tensor.dtype} {list(tensor.shape)}], "
                          f"which {step.plan.op.name} had saved, is at version {tensor._version}; expected version {step.versions[k]} instead",
                          "values unchanged from the forward pass to the backward pass", "use the operator without the underscore, or clone() the tensor before it is changed")


def derive_recorded(step: Step, gradients, retain):
    """A backward step under ``create_graph``: its own operators are recorded, and intermediate values are computed anew
    from inputs, so that gradients flow through them too."""
    for k, value in enumerate(step.saved):
        if isinstance(value, Tensor) and value.storage.version != step.versions[k]:
            stale(step, k)
    saved = step.saved
    if not retain:
        step.saved = None
    return recorded_gradients(step, saved, gradients)


def recorded_gradients(step: Step, saved, gradients):
    """The gradients of a step's arguments as functions of what it saved and of the gradients it gets."""
    plan: Plan = step.plan
    values = []
    for k, value in enumerate(saved):
        if isinstance(value, Tensor):
            code = plan.saves[k]
            if code < 0 and ~code in plan.cotangents:
                linked = alias(value)
                linked.step, linked.output, linked.needs_grad = step, ~code, 1
                value = linked
        values.append(value)
    cotangents = [gradients[k] if k < len(gradients) and gradients[k] is not None else full_of(plan.outputs[k], 0) for k in plan.cotangents]
    recorded = plan.derived.facts.get("recorded")
    if recorded is not None:
        operator, chosen = recorded
        results = operator(*[values[k] for k in chosen], *cotangents)
    else:
        results = plan.derived(*values, *cotangents)
    return results if isinstance(results, tuple) else (results,)


def mutate(plan: Plan, target: Tensor, args, values, used):
    """An in-place operator under autograd: the target's history becomes this operation."""
    if target.step is None and target.needs_grad:
        raise LeafWrittenError("a leaf Variable that requires grad is being used in an in-place operation.", "a result, or a leaf without gradient",
                               "change a clone(), or do it under no_grad()")
    base = target.base
    if base is not None and base.needs_grad and base.step is None:
        raise LeafWrittenError("a view of a leaf Variable that requires grad is being used in an in-place operation.", "a view of a result",
                               "change a view of a clone(), or do it under no_grad()")
    if base is not None and target.step is not None and target.seen != target.storage.version:
        refresh(target)
    shadow = alias(target)  # takes the results of recording; the arguments still show the history before
    extras = []
    at = used
    for meta in plan.outputs:
        extra = empty_of(meta)
        extras.append(extra)
        from ..core.native.memory import store_i64
        store_i64(values, at, extra.storage.address)
        at += 1
    version = target.storage.version
    before = OPS["clone"](alias(target)) if plan.source in plan.saves else None
    calls.launch(plan, args, values, at)
    packing, state.packing = state.packing, 0
    target.storage.version = version  # what is saved of the arguments is as they were before
    if plan.wanted:
        calls.record(plan, args, (shadow, *extras), values)
        if before is not None and shadow.step is not None:
            shadow.step.saved, shadow.step.versions = zip(*[(before, 0) if code == plan.source else pair
                                                            for code, pair in zip(plan.saves, zip(shadow.step.saved, shadow.step.versions))])
        if any(code == -1 for code in plan.saves) and shadow.step is not None:
            shadow.step.versions = tuple(v + 1 if code == -1 else v for v, code in zip(shadow.step.versions, plan.saves))
    target.storage.version = version + 1
    state.packing = packing
    if packing and shadow.step is not None:
        state.pack(shadow.step)
    if shadow.step is None:
        shadow.step = constant_step(target)
    target.step, target.output, target.needs_grad = shadow.step, shadow.output, int(shadow.step is not None)
    target.seen = target.storage.version
    if base is not None:
        rebase(base, target, shadow.step)
        target.seen = -1  # regenerated from the base when next asked for
    return target


def constant_step(target: Tensor):
    """The step of a target overwritten by something that does not depend on it: it still wants gradients, and passes none on."""
    before = calls.edge(target)
    if before is None:
        return None
    made = Step()
    made.kind, made.outputs, made.extra = FUNCTION, (target.meta,), "FillBackward0"
    made.edges, made.slots, made.function = (before,), (target.output,), lambda gradient: (None,)
    state.sequence += 1
    made.number = state.sequence
    return made


def rebase(base: Tensor, view: Tensor, step):
    """The history of a base of which a view was written: the rest of the old value, and the view's new one."""
    meta, start, old = view.meta, view.offset - base.offset, calls.edge(base)
    made = Step()
    made.kind, made.outputs, made.extra = FUNCTION, (base.meta,), True
    edges = [old, step]
    made.edges, made.slots = tuple(edges), (base.output, 0)
    state.sequence += 1
    made.number = state.sequence

    def function(gradient):
        if gradient is None:
            return None, None
        whole = gradient.contiguous() if not base.meta.contiguous or gradient.meta is not base.meta else gradient
        dense = OPS["clone"](whole) if base.meta.contiguous else laid_out(whole, base.meta)
        part = OPS["as_strided"](dense, tuple(meta.shape), meta.strides, start)
        inner = OPS["clone"](part) if step is not None else None
        if old is not None:
            OPS["zero_"](part)
        return (dense if old is not None else None), inner

    made.function = function
    base.step, base.output, base.needs_grad = made, 0, 1
    base.seen = base.storage.version


def laid_out(value: Tensor, meta):
    """A copy of a value in memory of its own with the given strides."""
    memory = OPS["new_zeros"](value, span(meta.shape, meta.strides))
    return OPS["copy_"](OPS["as_strided"](memory, tuple(meta.shape), meta.strides), value)


def refresh(view: Tensor):
    """The step of a view whose memory was changed through another tensor: the same region of its base."""
    base = view.base
    if base is None or not base.needs_grad or base.step is None:
        return view.step
    with recording(True):
        again = OPS["as_strided"](base, tuple(view.meta.shape), view.meta.strides, view.offset)
    view.step, view.output, view.needs_grad = again.step, again.output, 1
    view.seen = view.storage.version
    return view.step


def activate():
    """Connects the engine with its slow paths."""
    state.accumulate, state.run_hooks, state.run_posthooks = accumulate, run_hooks, run_posthooks
    state.call_function, state.freed, state.stale = call_function, freed, stale
    state.derive_recorded, state.mutate, state.refresh = derive_recorded, mutate, refresh
    state.add, state.zeros = OPS["add"], lambda meta: full_of(meta, 0)


@attach
def register_hook(self, hook):
    """Calls ``hook(gradient)`` whenever this tensor's gradient is computed; what it returns replaces the gradient."""
    from .node import Handle

    if not self.needs_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.step is None:
        self.hooks = {} if self.hooks is None else self.hooks
        return Handle(self.hooks, hook)
    slot = self.output
    step = calls.edge(self)
    step.hooks = {} if step.hooks is None else step.hooks

    def on_step(gradients):
        if slot < len(gradients) and gradients[slot] is not None:
            changed = hook(gradients[slot])
            if changed is not None:
                gradients[slot] = changed
        return gradients

    return Handle(step.hooks, on_step)


@attach
def register_post_accumulate_grad_hook(self, hook):
    """Calls ``hook(tensor)`` after a gradient was accumulated into this leaf."""
    from .node import Handle

    if not self.needs_grad or self.step is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if not hasattr(self, "_post_accumulate_hooks"):
        self._post_accumulate_hooks = {}
    return Handle(self._post_accumulate_hooks, hook)


@attach
def retain_grad(self):
    """Keeps this non-leaf tensor's gradient in ``.grad``."""
    if not self.needs_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self.step is None or self.gradient_hook is not None:
        return
    import weakref

    ref = weakref.ref(self)

    def keep_gradient(gradient):
        tensor = ref()
        if tensor is not None:
            tensor.gradient = gradient if tensor.gradient is None else tensor.gradient + gradient

    self.gradient_hook = self.register_hook(keep_gradient)
