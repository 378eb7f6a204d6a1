"""What users see of a backward step: ``tensor.grad_fn``."""
from __future__ import annotations

import collections
import functools
import itertools

from ..core.native import Step, Tensor, calls
from ..core.native.objects import ACCUMULATE, DERIVED

_numbers = itertools.count()


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


class Node:
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
        return tuple((node_of(e) if e is not None else None, s) for e, s in zip(self.step.edges, self.step.slots))

    @property
    def variable(self):
        return self.step.variable

    def register_hook(self, hook):
        """Calls ``hook(grad_inputs, grad_outputs)`` after this step."""
        self.step.posthooks = {} if self.step.posthooks is None else self.step.posthooks
        return Handle(self.step.posthooks, hook)

    def register_prehook(self, hook):
        """Calls ``hook(grad_outputs)`` before this step."""
        self.step.hooks = {} if self.step.hooks is None else self.step.hooks
        return Handle(self.step.hooks, lambda gradients: hook(tuple(gradients)))

    def __eq__(self, other):
        return isinstance(other, Node) and other.step is self.step

    def __hash__(self):
        return id(self.step)

    def __repr__(self):
        return f"<{class_name(self.step)} object at {hex(id(self.step))}>"


class GradientEdge(collections.namedtuple("GradientEdge", "node output_nr")):
    """One result of a node: what gradients are asked for, where its tensor is gone."""

    ownership_token = None


def class_name(step: Step) -> str:
    """The name PyTorch would print: AddBackward0 for ``add``."""
    if step.kind == ACCUMULATE:
        return "AccumulateGrad"
    if step.kind != DERIVED:
        return step.extra if isinstance(step.extra, str) else "CopySlices"
    stem = step.plan.op.name.split(".")[-1].strip("_")
    return "".join(part.capitalize() for part in stem.split("_")) + "Backward0"


def _grad_fn(self):
    """How this tensor was made, for the backward pass; None for a leaf."""
    if self._step is None and (self._base is None or not calls.joins(self)):
        return None
    return node_of(calls.edge(self))


@functools.cache
def kind_of(name: str) -> type:
    """The class of nodes of one name, which programs print and compare."""
    return type(name, (Node,), {"__module__": __name__})


def node_of(step: Step) -> Node:
    """What users see of a step."""
    return kind_of(class_name(step))(step)


Tensor.grad_fn = property(_grad_fn)
