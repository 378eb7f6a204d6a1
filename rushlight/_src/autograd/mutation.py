"""In-place operators under autograd: histories of written tensors, of bases whose views are written, and of views whose
base is written."""
from __future__ import annotations

from ..core.errors import LeafWrittenError, StorageBoundsError
from ..core.interpret import recording
from ..core.meta import Meta, span
from ..core.native import GradNode, Plan, Tensor, counter, history, mine, running, sharing, state
from ..core.native.memory import store_i64
from ..core.native.objects import FUNCTION
from ..core.op import OPS, turning
from ..core.pytree import tree_map
from ..core.tensor import alias, attach, empty_of, expect_gradients, refuse_leaf
from ..ops.slices import region
from .hooks import retained
from .node import class_name
from .passing import following, full_of


def mutate(plan: Plan, target: Tensor, args, values, used):
    """Run an in-place operator under autograd: the target's history becomes this operation."""
    prepare_write(target)
    shadow = alias(target)  # gets the results of recording; the arguments still have the history before it
    extras = [empty_of(meta) for meta in plan.outputs]
    for place, extra in enumerate(extras, used):
        store_i64(values, place, extra._rush_storage.address)
    version = counter(target).version
    before = copy_before(target, alias(target)) if plan.source in plan.saves else None
    try:
        (running.launch if plan.place is None else state.launch_elsewhere)(plan, args, values, used + len(extras))
    finally:
        sharing.count_end(target)  # also if recording raises
    packing, mine.packing = mine.packing, 0
    counter(target).version = version  # saved arguments have their values from before the write
    if plan.wanted:
        history.record(plan, args, (shadow, *extras), values)
        if shadow._rush_grad_node is not None:
            correct_saved(shadow._rush_grad_node, plan.saves, plan.source, before)
    counter(target).version = version + 1
    mine.packing = packing
    if packing and shadow._rush_grad_node is not None:
        state.pack(shadow._rush_grad_node)
    if shadow._rush_grad_node is None:
        shadow._rush_grad_node = constant_node(target)
    take_history(target, shadow)
    target._rush_seen = counter(target).version
    written(target)
    return target


def prepare_write(target: Tensor):
    """Refuse targets that may not be written while gradients are recorded, and give a view its current history."""
    refuse_leaves(target)
    if target._base is not None and target._rush_grad_node is not None and (is_outdated(target) or is_hooked(target)):
        refresh(target)


def take_history(tensor: Tensor, other: Tensor):
    """Give this tensor the node of another one."""
    tensor._rush_grad_node, tensor._rush_output = other._rush_grad_node, other._rush_output
    tensor._rush_needs_grad = int(other._rush_grad_node is not None)


def is_outdated(view: Tensor) -> bool:
    """True if the node of a view does not describe it: its memory was written, or its metadata replaced."""
    replaced = view._rush_output in (view._rush_grad_node.expected or {})
    return replaced or history.seen_at(view) != counter(view).version


def is_hooked(view: Tensor) -> bool:
    """True if hooks are registered between a view and its base.  They are for values before a write, so that the
    history of what is written must not go through their nodes."""
    node, end = view._rush_grad_node, view._base._rush_grad_node
    while node is not None and node is not end:
        if node.hooks or node.posthooks:
            return True
        node = node.edges[0] if len(node.edges) == 1 else None
    return False


def written(target: Tensor):
    """Update state after a written tensor has its new node: the history of its base, and hooks on retained
    gradients."""
    base = target._base
    if base is not None and (target._rush_grad_node is not None or history.edge(base) is not None):
        rebase(base, target, target._rush_grad_node)
        target._rush_seen = -1  # regenerated from the base when next asked for
    for changed in (target, base):
        if changed is not None and changed._rush_gradient_hook is not None and changed._rush_grad_node is not None:
            retained(changed)


@attach
def _rush_become(self, view: Tensor):
    """Replace the metadata of this tensor by those of a view of it.  If the view was recorded, it is the tensor's
    history too; otherwise the tensor keeps its own, as after a write under ``no_grad``."""
    if view._rush_grad_node is not None:
        refuse_leaves(self)
    sharing.count_write(self)
    if view._rush_grad_node is None:
        expect_gradients(self)
    else:
        take_history(self, view)
        if self._base is not None:
            self._rush_seen = counter(self).version
    self._rush_meta, self._rush_offset = view._rush_meta, view._rush_offset


@attach
def _rush_write_underivable(self, name: str, write, *sources: Tensor):
    """Call ``write``, an in-place operator without a derivative, and make it the history of this tensor and of its
    base: RuntimeError if a gradient arrives."""
    refuse_leaves(self)

    def refuse(*gradients):
        raise RuntimeError(f"derivative for {name} is not implemented")

    changed = [self] if self._base is None else [self, self._base]
    made = following([*changed, *sources], "NotImplemented", refuse)
    write()
    for tensor, result in zip(changed, made):
        take_history(tensor, result)
        tensor._rush_seen = counter(tensor).version


def copy_before(target: Tensor, shown: Tensor) -> Tensor:
    """Copy the target's value before it is written, from an alias, with its current history, which double backward
    uses."""
    with recording(False):
        before = OPS["clone"](shown)
    before._rush_grad_node, before._rush_output = target._rush_grad_node, target._rush_output
    before._rush_needs_grad = target._rush_needs_grad
    return before


def refuse_leaves(target: Tensor):
    """LeafWrittenError for a target that is a leaf that requires a gradient, or a view of one."""
    if target._rush_grad_node is None and target._rush_needs_grad:
        refuse_leaf(target)
    if target._rush_seen < history.UNRECORDED:
        refuse_view(target, "is being modified inplace with grad mode enabled")
    base = target._base
    wanted = base is not None and (base._rush_needs_grad or target._rush_needs_grad)  # or by a view between the two
    if wanted and base._rush_grad_node is None:
        raise LeafWrittenError("a view of a leaf Variable that requires grad is being used in an in-place operation.",
                               "a view of a result",
                               "change a view of a clone(), or do it under no_grad()")


def refuse_view(view: Tensor, what: str):
    """Raise LeafWrittenError for a view whose history cannot follow a write: it was made while recording was disabled,
    or is one of several results of an operator."""
    if view._rush_seen > history.MULTIPLE:
        node = view._rush_grad_node
        if node is not None and hasattr(node.function, "context"):
            raise LeafWrittenError(
                f"Output {view._rush_output} of {class_name(node).removesuffix('Backward')} is a view and {what}. "
                "This view was created inside a custom Function (or because an input was returned as-is), whose "
                "backward would not see the write.",
                "a tensor that is no view from a Function, or a write under no_grad()",
                "change a clone(), or write in other memory: y = y + 1 for y += 1")
        whose = ("A view was" if node is None else
                 f"Output {view._rush_output} of {class_name(node)} is a view of a view which was")
        mode, block = (("inference", "inference_mode") if view._rush_seen <= history.INFERRED
                       else ("no_grad", "no_grad"))
        raise LeafWrittenError(
            f"{whose} created in {mode} mode and {what}: the written value would become part of a history that "
            f"does not contain the view. Both the view and the write belong inside the {block} block, or both outside.",
            f"a view that was recorded, or a write under {block}()",
            "make the view with recording enabled, or change its detach()")
    name = "UnbindBackward0" if view._rush_grad_node is None else class_name(view._rush_grad_node)
    raise LeafWrittenError(
        f"Output {view._rush_output} of {name} is a view and {what}. This view is the output of a function that "
        "returns multiple views. Such functions do not allow the output views to be modified inplace.",
        "a view that an operator made alone, or a write under no_grad()",
        "index or narrow() the tensor instead, or change a clone()")


RESULT = -1  # the code by which a plan saves its first result


def correct_saved(node: GradNode, codes, source, before):
    """Correct the values that a node saved while the target was written: the old value if it saved the target, the new
    version if it saved the result."""
    saved, versions = list(node.saved), list(node.versions)
    for place, code in enumerate(codes):
        if before is not None and code == source:
            saved[place], versions[place] = before, 0
        if code == RESULT:
            versions[place] += 1
    node.saved, node.versions = tuple(saved), tuple(versions)


def constant_node(target: Tensor):
    """Return the node of a target overwritten by a value that does not depend on it: it still requires gradients, and
    passes zeros on."""
    before = history.edge(target)
    if before is None:
        return None
    made, meta = GradNode(), target._rush_meta
    made.kind, made.outputs, made.extra = FUNCTION, (meta,), "FillBackward0"
    made.edges, made.slots, made.function = (before,), (target._rush_output,), lambda gradient: (full_of(meta, 0),)
    state.sequence += 1
    made.number = state.sequence
    return made


VIEWED = object()  # stands for the tensor that a step shows


class ViewStep:
    """The call of a view operator on an instance of a class that answers operators; its result, or one of several."""

    def __init__(self, op, args, kwargs, index, source=None):
        self.op, self.args, self.kwargs, self.index = op, args, kwargs, index
        self.layout = None if source is None else layout_of(source)

    def repeat(self, tensor):
        """Return the view of another tensor."""
        args, kwargs = tree_map(lambda value: tensor if value is VIEWED else value, (self.args, self.kwargs))
        result = self.op(*args, **kwargs)
        return result if self.index is None else result[self.index]


def layout_of(tensor) -> tuple:
    """Return the shape and strides of a tensor, which views of it depend on."""
    return tuple(tensor.shape), tuple(tensor._rush_meta.strides)


def repeat_views(steps, tensor):
    """Return what steps of views show of a tensor.  RuntimeError if it has become a view of itself since."""
    if steps and steps[0].layout not in (None, layout_of(tensor)):
        raise RuntimeError(f"a view of a {type(tensor).__name__} was made before that changed its shape or strides in "
                           "place (t_, squeeze_, ...), and is used after it: make the view again")
    for step in steps:
        tensor = step.repeat(tensor)
    return tensor


Tensor._rush_views = ()  # the steps from its base, for instances of classes that answer operators: these have no memory


def rebase(base: Tensor, view: Tensor, node):
    """Replace the history of a base after a write to a view: the rest of the old value, and the view's new one."""
    shape, bits = base._rush_meta, base._rush_turned  # now: the base may become a view of itself
    steps = view._rush_views
    (meta, start) = (None, 0) if steps else place_in(base, view)
    written, old = view._rush_meta, history.edge(base)
    made = GradNode()
    made.kind, made.outputs, made.extra = FUNCTION, (shape,), True
    edges = [old, node]
    made.edges, made.slots = tuple(edges), (base._rush_output, view._rush_output if node is not None else 0)
    state.sequence += 1
    made.number = state.sequence

    def function(gradient):
        if gradient is None:
            return None, None
        if steps:
            dense = OPS["copy_"](OPS["new_empty_strided"](gradient, tuple(shape.shape), tuple(shape.strides)), gradient)
            part = repeat_views(steps, dense)
        else:
            whole = (gradient.contiguous() if not shape.contiguous or gradient._rush_meta is not shape.plain
                     else gradient)
            turned = turning(whole, bits)  # its memory is to the gradient what that of the base is to the base
            dense = turning(OPS["clone"](turned) if shape.contiguous else laid_out(turned, shape), bits)
            check_within(shape, meta, start)
            part = region(dense, meta, start)
        inner = OPS["clone"](part).to(written.dtype) if node is not None else None
        if old is not None:
            OPS["zero_"](part)
        return (dense if old is not None else None), inner

    made.function = function
    base._rush_grad_node, base._rush_output, base._rush_needs_grad = made, 0, 1
    base._rush_seen = counter(base).version


def place_in(base: Tensor, view: Tensor) -> tuple:
    """Return the Meta of a view, and its start behind the base's first element, as ``region`` takes them.

    If the view or the base was given other memory, of another dtype (``x.data = y``), the view has the elements of the
    base at its indices, not those that share its bytes.
    """
    noted = view._rush_grad_node and (view._rush_grad_node.expected or {}).get(view._rush_output)
    dtype = noted.dtype if noted else view.dtype
    moved = not noted and view._rush_storage is not base._rush_storage
    if base.dtype not in ((dtype,) if moved else (dtype, dtype.to_real(), dtype.to_complex())):
        dtype = base.dtype
    meta = view._rush_meta
    return (meta.like(tuple(meta.shape), tuple(meta.strides), dtype),
            view._rush_offset - base._rush_offset * base.itemsize // dtype.itemsize)


def check_within(base: Meta, meta: Meta, start: int):
    """StorageBoundsError for a region that exceeds a base: one of the two was given other storage since."""
    size = span(base.shape, base.strides) * base.itemsize
    if meta.numel and (start < 0 or start * meta.itemsize + meta.nbytes > size):
        raise StorageBoundsError(
            f"a view of sizes {list(meta.shape)}, strides {list(meta.strides)} and start {start} was written, which "
            f"exceeds the sizes {list(base.shape)} of its base: its storage was replaced by another one",
            "the gradient of a view whose elements its base has")


def laid_out(value: Tensor, meta):
    """Copy a value to new storage with the given strides."""
    memory = OPS["new_zeros"](value, span(meta.shape, meta.strides))
    return OPS["copy_"](OPS["as_strided"](memory, tuple(meta.shape), meta.strides), value)


def refresh(view: Tensor):
    """Return the node of a view whose storage was written through another tensor: the same region of its base.
    LeafWrittenError for views whose history cannot follow."""
    base = view._base
    if base is not None and base._rush_needs_grad and view._rush_seen < history.UNRECORDED:
        refuse_view(view, "its base or another view of its base has been modified inplace")
    if base is None or not base._rush_needs_grad:
        return view._rush_grad_node
    with recording(True):
        steps = view._rush_views
        again = repeat_views(steps, base) if steps else region(base, *place_in(base, view))
    if again.dtype is not view.dtype:
        expect_gradients(again)
    take_history(view, again)
    view._rush_seen = counter(view).version
    return view._rush_grad_node
