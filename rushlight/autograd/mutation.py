"""In-place operators under autograd: histories of what is written, of the tensors whose views are written, and of views whose base is."""
from __future__ import annotations

from ..core.errors import LeafWrittenError
from ..core.interpret import recording
from ..core.meta import span
from ..core.native import Plan, Step, Tensor, calls, state
from ..core.native.memory import store_i64
from ..core.native.objects import FUNCTION
from ..core.op import OPS
from ..core.tensor import alias, empty_of
from .steps import full_of


def mutate(plan: Plan, target: Tensor, args, values, used):
    """An in-place operator under autograd: the target's history becomes this operation."""
    refuse_leaves(target)
    base = target.base
    if base is not None and target.step is not None and target.seen != target.storage.version:
        refresh(target)
    shadow = alias(target)  # takes the results of recording; the arguments still show the history before
    extras = [empty_of(meta) for meta in plan.outputs]
    for place, extra in enumerate(extras, used):
        store_i64(values, place, extra.storage.address)
    version = target.storage.version
    before = OPS["clone"](alias(target)) if plan.source in plan.saves else None
    calls.launch(plan, args, values, used + len(extras))
    packing, state.packing = state.packing, 0
    target.storage.version = version  # what is saved of the arguments is as they were before
    if plan.wanted:
        calls.record(plan, args, (shadow, *extras), values)
        if shadow.step is not None:
            correct_saved(shadow.step, plan.saves, plan.source, before)
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


def refuse_leaves(target: Tensor):
    """LeafWrittenError for a target that is a leaf which wants a gradient, or a view of one."""
    if target.step is None and target.needs_grad:
        raise LeafWrittenError("a leaf Variable that requires grad is being used in an in-place operation.", "a result, or a leaf without gradient",
                               "change a clone(), or do it under no_grad()")
    base = target.base
    if base is not None and base.needs_grad and base.step is None:
        raise LeafWrittenError("a view of a leaf Variable that requires grad is being used in an in-place operation.", "a view of a result",
                               "change a view of a clone(), or do it under no_grad()")


RESULT = -1  # the code by which a plan saves its first result


def correct_saved(step: Step, codes, source, before):
    """What a step saved while the target was written: the old value where it saved the target, the new version where it saved the result."""
    saved, versions = list(step.saved), list(step.versions)
    for place, code in enumerate(codes):
        if before is not None and code == source:
            saved[place], versions[place] = before, 0
        if code == RESULT:
            versions[place] += 1
    step.saved, step.versions = tuple(saved), tuple(versions)


def constant_step(target: Tensor):
    """The step of a target overwritten by something that does not depend on it: it still wants gradients, and passes zeros on."""
    before = calls.edge(target)
    if before is None:
        return None
    made, meta = Step(), target.meta
    made.kind, made.outputs, made.extra = FUNCTION, (meta,), "FillBackward0"
    made.edges, made.slots, made.function = (before,), (target.output,), lambda gradient: (full_of(meta, 0),)
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
