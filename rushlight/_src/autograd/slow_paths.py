"""Slow paths of the backward engine: leaves, hooks, Python functions, and recorded backward passes."""
from __future__ import annotations

import contextlib
import sys
import threading

from ..core.dtypes import float32
from ..core.errors import GraphFreedError, StaleValueError
from ..core.forking import guarded
from ..core.interpret import Unwatched, recording
from ..core.meta import Meta, dense_strides, row_major
from ..core.native import GradNode, Plan, Tensor, counter, mine, state
from ..core.native.objects import ACCUMULATE, DERIVED, FUNCTION
from ..core.op import OPS
from ..core.overriding import DisableTorchFunction
from ..core.tensor import alias, empty_of
from .passing import full_of
from .reached import partly_reached, with_history


def hooked(hook, gradient):
    """Apply a hook to a gradient."""
    return replaced(gradient, hook(gradient), hook)


def name_of(hook) -> str:
    """Name of a hook in errors: that of a function, or the class of a callable object."""
    return getattr(hook, "__name__", type(hook).__name__)


def replaced(gradient, changed, hook):
    """Return the gradient after a hook returned, None for no change.  TypeError if it returned no tensor, RuntimeError
    for one that is not like the gradient."""
    if changed is None:
        return gradient
    name = name_of(hook)
    if not isinstance(changed, Tensor):
        raise TypeError(
            f"expected Variable, but hook '{name}' has returned {type(changed).__name__}: a hook returns a Tensor, or "
            "None to leave the gradient unchanged")
    if gradient is None:
        raise RuntimeError(f"can't replace a None gradient with a non-None value, as hook '{name}' does")
    if tuple(changed.shape) != tuple(gradient.shape):
        raise RuntimeError(
            f"hook '{name}' has changed the size of value: from {list(gradient.shape)} to {list(changed.shape)}")
    if changed.dtype is not gradient.dtype:
        raise RuntimeError(f"hook '{name}' has changed the type of value: from {gradient.dtype} to {changed.dtype}")
    return changed


def all_replaced(gradients, changed, hook):
    """Return the gradients after a node's hook returned: a tuple with a tensor for each, or None for no change."""
    if changed is None:
        return gradients
    name = name_of(hook)
    if not isinstance(changed, tuple):
        raise TypeError(
            f"expected tuple, but hook '{name}' has returned {type(changed).__name__}: a hook of a node returns a "
            "gradient for each, or None to change nothing")
    if len(changed) != len(gradients):
        raise RuntimeError(
            f"hook '{name}' has returned an incorrect number of values (got {len(changed)}, but expected "
            f"{len(gradients)})")
    return type(gradients)(after if after is None or before is after else replaced(before, after, hook)
                           for before, after in zip(gradients, changed))


def accumulate(leaf: Tensor, gradient: Tensor, create: int):
    """Add a gradient to a leaf's ``.grad``; do nothing if it no longer requires one."""
    if not leaf._rush_needs_grad:
        return
    if gradient is not None:
        add_to(leaf, gradient, create)
    for hook in list(getattr(leaf, "_rush_post_accumulate_hooks", {}).values()):
        if hook(leaf) is not None:
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def poison_accumulator(leaf: Tensor):
    """Make graphs recorded with this leaf, which will become another tensor, raise RuntimeError when a gradient reaches
    it: it would be added to the gradient of the other tensor."""
    known = None if leaf._rush_accumulator is None else leaf._rush_accumulator()
    if known is None:
        return

    def refuse(*gradients):
        raise RuntimeError(
            "Trying to execute AccumulateGrad node that was poisoned by swap_tensors: the graph was recorded before "
            "the leaf was swapped. Run backward() before the swap, or compute the loss again after it")

    known.kind, known.outputs, known.extra = FUNCTION, (leaf._rush_meta,), "AccumulateGrad"
    known.function, leaf._rush_accumulator = refuse, None


def add_to(leaf: Tensor, gradient: Tensor, create: int):
    """Add a gradient to the ``.grad`` of a leaf: in place, unless the sum must be differentiable."""
    if gradient.dtype is not leaf.dtype:
        gradient = gradient.to(leaf.dtype)
    with accumulating:
        known = leaf._rush_gradient
        if known is None:
            leaf._rush_gradient = laid_as(leaf, gradient) if create else keep(gradient, leaf)
        elif create or known._rush_needs_grad or known.is_sparse and not gradient.is_sparse:
            leaf._rush_gradient = state.add(known, gradient)
        else:
            OPS["add_"](known, gradient)


accumulating = guarded("gradients", threading.RLock())  # threads may share a leaf


class Holds:
    """Number of references that ``keep`` counts for a gradient that only the engine holds: interpreters count those of
    their frames differently."""

    count: int | None = None
    probe: Tensor | None = None

    @classmethod
    def measure(cls):
        """Send a gradient without other references through the engine."""
        with recording(True), DisableTorchFunction(), Unwatched():
            one = Meta.of((1,), float32)
            cls.probe = empty_of(one).requires_grad_()
            OPS["view"](cls.probe, (1, 1)).backward(OPS["view"](empty_of(one), (1, 1)))
        cls.probe = None


def keep(gradient: Tensor, leaf: Tensor) -> Tensor:
    """Return the first gradient of a leaf with its own storage and the strides of the leaf: gradients may be shared
    between leaves, or be expanded views."""
    count = sys.getrefcount(gradient)
    if leaf is Holds.probe:
        Holds.count = count
    elif Holds.count is None:
        Holds.measure()
    alone = count <= Holds.count and sys.getrefcount(gradient._rush_storage) == 2
    if (alone and gradient._rush_grad_node is None and gradient._base is None and not gradient._rush_needs_grad
            and lies_as(gradient._rush_meta, leaf._rush_meta)):
        return gradient
    with recording(False):
        return laid_as(leaf, gradient)


def laid_as(leaf: Tensor, gradient: Tensor) -> Tensor:
    """Copy a gradient to the strides of this leaf's gradient.  A gradient of the shape that the leaf had before its
    metadata were replaced is broadcast to that of the leaf; RuntimeError if that is impossible."""
    if type(gradient) is not Tensor:
        return OPS["clone"](gradient)
    shown = leaf._rush_meta
    return OPS["copy_"](empty_of(gradient._rush_meta.like(shown.shape, strides_for(shown))), gradient)


def strides_for(leaf: Meta) -> tuple:
    """Strides of a leaf's gradient: the leaf's if it is dense, else row-major ones."""
    return leaf.strides if dense_strides(leaf.shape, leaf.strides) is not None else row_major(leaf.shape)


def lies_as(meta: Meta, leaf: Meta) -> bool:
    """True if a gradient has the shape and strides that a leaf's gradient gets."""
    return meta.shape == leaf.shape and (meta.contiguous if leaf.contiguous else meta.strides == strides_for(leaf))


def unreached(node: GradNode) -> list:
    """Undefined gradients of a node: None for each of its outputs."""
    outputs = node.plan.outputs if node.kind == DERIVED else node.outputs
    return [None] * len(outputs or (None,))


class Retained:
    """Hook that retains the gradient of a non-leaf tensor: it receives the result of the tensor's other hooks."""

    def __init__(self, hook):
        self.hook = hook

    def __call__(self, gradients):
        return self.hook(gradients)


class Before:
    """Hook of a node that runs before the node, after the hooks of tensors."""

    def __init__(self, hook):
        self.hook = hook


class Unhooked(threading.local):
    """Leaves whose hooks this thread's backward pass leaves to the caller."""

    leaves: tuple = ()


unhooked = Unhooked()


@contextlib.contextmanager
def without_hooks(leaves):
    """A block in which backward passes do not call the hooks of these leaves."""
    outer, unhooked.leaves = unhooked.leaves, tuple(leaves)
    try:
        yield
    finally:
        unhooked.leaves = outer


def run_hooks(node: GradNode, gradients):
    """Run the hooks of a node's outputs (or of a leaf) on the incoming gradients."""
    if node.kind == ACCUMULATE:
        if any(node.variable is leaf for leaf in unhooked.leaves):
            return gradients
        for hook in list(node.variable._rush_hooks.values()):
            gradients = [hooked(hook, gradients[0])]
        return gradients
    gradients = [*gradients, *unreached(node)[len(gradients):]]
    for hook in sorted(node.hooks.values(), key=lambda hook: type(hook) is Retained):
        gradients = all_replaced(gradients, hook(gradients), hook)
    return gradients


def run_prehooks(node: GradNode, gradients):
    """Run the hooks before a node on its incoming gradients."""
    for hook in [hook.hook for hook in node.posthooks.values() if type(hook) is Before]:
        gradients = list(all_replaced(tuple(gradients), hook(tuple(gradients)), hook))
    return gradients


def run_posthooks(node: GradNode, results, gradients):
    """Run the hooks after a node on the gradients that it returned."""
    results = (None,) * len(node.edges) if results is None else results
    for hook in [hook for hook in node.posthooks.values() if type(hook) is not Before]:
        results = all_replaced(results, hook(results, tuple(gradients)), hook)
    return results


def call_function(node: GradNode, gradients, retain):
    """Run a node that is a Python function.  If all gradients are undefined, skip it, unless the function accepts them
    as zeros."""
    if node.function is None:
        freed(node)
    gradients = [*gradients, *unreached(node)[len(gradients):]]
    if all(g is None for g in gradients) and not getattr(node.function, "unreached", False):
        return (None,) * len(node.edges)
    results = node.function(*gradients)
    if not retain:
        release = getattr(node.function, "release", None)
        if release is not None:
            release()
        elif not node.extra:
            node.function = None
    return results


def freed(node):
    raise GraphFreedError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
        "been freed): a backward "
        "pass frees what the graph keeps", "one backward pass for each forward pass",
        "Specify retain_graph=True for the first of them, or compute the loss again")


def stale(node, k):
    changed(node.saved[k], node.plan.op.name, node.versions[k])


def changed(tensor, name, version):
    """StaleValueError for a saved tensor that was modified since."""
    raise StaleValueError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{tensor.dtype} {list(tensor.shape)}], "
        f"which {name} had saved, is at version {tensor._version}; expected version {version} instead",
        "values unchanged from the forward pass to the backward pass",
        "use the operator without the underscore, or clone() the tensor before it is changed")


def derive_recorded(node: GradNode, gradients, retain):
    """Run a node under ``create_graph``: its operators are recorded, and intermediate values are recomputed from
    inputs, so that gradients flow through them too."""
    for k, value in enumerate(node.saved):
        if isinstance(value, Tensor) and counter(value).version != node.versions[k]:
            stale(node, k)
    saved = node.saved
    if not retain and not node.plan.lasting and any(isinstance(value, Tensor) for value in saved):
        node.saved = None
    return recorded_gradients(node, saved, gradients)


def recorded_gradients(node: GradNode, saved, gradients):
    """Return the gradients of a node's arguments as functions of its saved values and incoming gradients."""
    plan: Plan = node.plan
    values = []
    for k, value in enumerate(saved):
        if isinstance(value, Tensor):
            code = plan.saves[k]
            if code < 0 and ~code in plan.cotangents:
                linked = alias(value)
                linked._rush_grad_node, linked._rush_output, linked._rush_needs_grad = node, ~code, 1
                value = linked
        values.append(value)
    missing = [k for k in plan.cotangents if k >= len(gradients) or gradients[k] is None]
    cotangents = [full_of(plan.outputs[k], 0) if k in missing else gradients[k] for k in plan.cotangents]
    recorded = plan.derived.caches.get("recorded")
    if recorded is not None:
        operator, chosen = recorded
        results = operator(*[values[k] for k in chosen], *plan.constants, *cotangents)
    else:
        results = plan.derived(*values, *plan.constants, *cotangents)
    results = results if isinstance(results, tuple) else (results,)
    if missing:
        results = partly_reached(node, gradients, results)
    return with_history(node, results) if plan.op.traits.get("second") and not mine.stack else results
