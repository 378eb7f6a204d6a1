"""Hooks of tensors: called with a gradient when it is computed, or with a leaf when its gradient is there."""
from __future__ import annotations

import weakref

from ..core.native import history
from ..core.tensor import attach
from .node import Handle
from .slow_paths import Retained, hooked


@attach
def register_hook(self, hook):
    """Calls ``hook(gradient)`` whenever this tensor's gradient is computed; what it returns replaces the gradient."""
    if not self._rush_needs_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._rush_grad_node is None:
        self._rush_hooks = {} if self._rush_hooks is None else self._rush_hooks
        return Handle(self._rush_hooks, hook)
    return on_step(self, hook)


def on_step(tensor, hook, kind=lambda hook: hook):
    """Hangs a hook of a tensor that is no leaf onto the node that made it."""
    node, slot = history.edge(tensor), tensor._rush_output
    node.hooks = {} if node.hooks is None else node.hooks

    def changed(gradients):
        return (*gradients[:slot], hooked(hook, gradients[slot]), *gradients[slot + 1:])

    return Handle(node.hooks, kind(changed))


@attach
def register_post_accumulate_grad_hook(self, hook):
    """Calls ``hook(tensor)`` after a gradient was accumulated into this leaf."""
    if not self._rush_needs_grad or self._rush_grad_node is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if not hasattr(self, "_rush_post_accumulate_hooks"):
        self._rush_post_accumulate_hooks = {}
    return Handle(self._rush_post_accumulate_hooks, hook)


@attach
def retain_grad(self):
    """Keeps this non-leaf tensor's gradient in ``.grad``."""
    if not self._rush_needs_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self._rush_grad_node is None or self._rush_gradient_hook is not None:
        return
    retained(self)


def retained(tensor):
    """Has the node that made a tensor keep its gradient, instead of the one that did so before: an operator in place
    makes another value of it."""
    if tensor._rush_gradient_hook is not None:
        tensor._rush_gradient_hook.remove()
    ref = weakref.ref(tensor)

    def keep_gradient(gradient):
        known = ref()
        if known is not None and gradient is not None:
            known._rush_gradient = gradient if known._rush_gradient is None else known._rush_gradient + gradient

    tensor._rush_gradient_hook = on_step(tensor, keep_gradient, Retained)
