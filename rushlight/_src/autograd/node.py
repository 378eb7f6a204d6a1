"""What users see of a backward step: ``tensor.grad_fn``."""
from __future__ import annotations

import collections
import functools
import itertools
import weakref

from ..core.native import Step, Tensor, calls, engine, mine, state
from ..core.native.objects import ACCUMULATE, DERIVED
from .steps import Before, call_function, unreached

_numbers = itertools.count()
notes: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # step: what users note at it
# id of a step: its node, which keeps the step, while anybody holds one
seen: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class Handle:
    """Removes a hook: ``handle.remove()``, or leaving a ``with`` block."""

    def __init__(self, hooks: dict, hook):
        self.hooks, self.id = hooks, next(_numbers)
        hooks[self.id] = hook

    def remove(self):
        self.hooks.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


class GraphNode:
    """A backward step: ``name()``, ``next_functions``, ``register_hook``, ``metadata``."""

    def __init__(self, step: Step):
        self.step = step

    def name(self):
        step = self.step
        if step.kind == ACCUMULATE:
            return "torch::autograd::AccumulateGrad"
        return class_name(step)

    @property
    def next_functions(self):
        return tuple((node_of(e) if e is not None else None, s) for e, s in edges_of(self.step))

    @property
    def metadata(self):
        """A dict for notes of one's own, which the step keeps."""
        return notes.setdefault(self.step, {})

    def register_hook(self, hook):
        """Calls ``hook(grad_inputs, grad_outputs)`` after this step; what it returns replaces the gradients that the
        step gave."""
        return Handle(self.around(), hook)

    def register_prehook(self, hook):
        """Calls ``hook(grad_outputs)`` before this step; what it returns replaces the gradients that the step gets."""
        return Handle(self.around(), Before(hook))

    def around(self) -> dict:
        """The hooks that run before and after the step."""
        self.step.posthooks = {} if self.step.posthooks is None else self.step.posthooks
        return self.step.posthooks

    def __call__(self, *gradients):
        """The gradients of what the step was computed from, given those of its results.  TypeError for another number
        of gradients."""
        return applied(self.step, gradients)

    def __getattr__(self, name):
        if name.startswith(("_saved_", "_raw_saved_")):
            from .inspection import Unknown, look_up
            try:
                return look_up(self.step, name)
            except Unknown:
                pass
        raise AttributeError(f"{class_name(self.step)!r} object has no attribute {name!r}")

    def __dir__(self):
        from .inspection import names_of
        return [*super().__dir__(), *names_of(self.step)]

    def __eq__(self, other):
        return isinstance(other, GraphNode) and other.step is self.step

    def __hash__(self):
        return id(self.step)

    def __repr__(self):
        return f"<{class_name(self.step)} object at {hex(id(self.step))}>"


class AccumulateGrad(GraphNode):
    """The step of a leaf, which adds gradients to ``variable.grad``."""

    @property
    def variable(self):
        return self.step.variable


class FunctionNode(GraphNode):
    """The step of a function of the user: also what ``forward`` left in its context."""

    @property
    def _raw_saved_tensors(self):
        from .inspection import SavedTensor
        return tuple(SavedTensor.of(self.step, k) for k in range(len(self.step.function.context.kept())))

    def __getattr__(self, name):
        return getattr(self.step.function.context, name)

    def __setattr__(self, name, value):
        if name == "step":
            return object.__setattr__(self, name, value)
        setattr(self.step.function.context, name, value)


class GradientEdge(collections.namedtuple("GradientEdge", "node output_nr")):
    """One result of a node: what gradients are asked for, where its tensor is gone."""

    ownership_token = None


class NodeType(type):
    """The class of Node, to which classes belong that do not derive from it."""

    kinds = (GraphNode,)

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls.kinds)

    def __subclasscheck__(cls, other):
        return other is cls or issubclass(other, cls.kinds)


class Node(metaclass=NodeType):
    """What all backward steps are instances of, and the contexts of functions: ``isinstance(tensor.grad_fn, Node)``."""


def class_name(step: Step) -> str:
    """The name PyTorch would print: AddBackward0 for ``add``."""
    if step.kind == ACCUMULATE:
        return "AccumulateGrad"
    if step.kind != DERIVED:
        return step.extra if isinstance(step.extra, str) else "CopySlices"
    stem = step.plan.op.name.split(".")[-1].strip("_")
    if stem == "copy":
        return "CopyBackwards"
    return "".join(part.capitalize() for part in stem.split("_")) + "Backward0"


def edges_of(step: Step):
    """(step, slot) for each argument that is a tensor, or a number where PyTorch makes it one: (None, 0) for those that
    want no gradient."""
    if step.plan is None:
        return zip(step.edges, step.slots)
    from .inspection import wants
    edges = iter(zip(step.edges, step.slots))
    return [next(edges) if wanted else (None, 0) for wanted in wants(step.plan)]


def _grad_fn(self):
    """How this tensor was made, for the backward pass; None for a leaf."""
    if self._step is None and (self._base is None or not calls.joins(self)):
        return None
    return node_of(calls.edge(self))


@functools.cache
def kind_of(name: str, base=GraphNode) -> type:
    """The class of nodes of one name, which programs print and compare."""
    return type(name, (base,), {"__module__": __name__})


def node_of(step: Step) -> GraphNode:
    """What users see of a step: one object, as long as it is held."""
    known = seen.get(id(step))
    if known is None:
        if step.kind == ACCUMULATE:
            kind = AccumulateGrad
        else:
            kind = kind_of(class_name(step), FunctionNode if hasattr(step.function, "context") else GraphNode)
        known = seen[id(step)] = kind(step)
    return known


def applied(step: Step, gradients):
    """The gradients that a step gives for those of its results: one, or a tuple.  TypeError for another number of them
    than it has results."""
    if len(gradients) != len(unreached(step)):
        raise TypeError(f"{class_name(step)} expected {len(unreached(step))} arguments, got {len(gradients)} instead")
    if step.kind == ACCUMULATE:
        state.accumulate(step.variable, gradients[0], 0)
        return ()
    run = engine.Run()
    run.retain, run.create = 1, mine.grad
    results = engine.derive(run, step, list(gradients)) if step.kind == DERIVED else call_function(step, gradients, 1)
    results = (None,) * len(step.edges) if results is None else results
    return results[0] if len(results) == 1 else results


Tensor.grad_fn = property(_grad_fn)
