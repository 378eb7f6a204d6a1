"""Tensor hooks, called with a gradient when it is computed, or with a leaf after its gradient was accumulated."""
from __future__ import annotations

import weakref

from ..core.native import history
from ..core.tensor import attach
from .node import Handle
from .slow_paths import Retained, hooked


@attach
def register_hook(self, hook):
    """Call ``hook(gradient)`` whenever this tensor's gradient is computed; its result replaces the gradient."""
    if not self._rush_needs_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._rush_grad_node is None:
        self._rush_hooks = {} if self._rush_hooks is None else self._rush_hooks
        return Handle(self._rush_hooks, hook)
    return on_step(self, hook)


def on_step(tensor, hook, kind=lambda hook: hook):
    """Register a hook of a non-leaf tensor on its node."""
    node, slot = history.edge(tensor), tensor._rush_output
    node.hooks = {} if node.hooks is None else node.hooks

    def changed(gradients):
        return (*gradients[:slot], hooked(hook, gradients[slot]), *gradients[slot + 1:])

    return Handle(node.hooks, kind(changed))


@attach
def register_post_accumulate_grad_hook(self, hook):
    """Call ``hook(tensor)`` after a gradient was accumulated into this leaf."""
    if not self._rush_needs_grad or self._rush_grad_node is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if not hasattr(self, "_rush_post_accumulate_hooks"):
        self._rush_post_accumulate_hooks = {}
    return Handle(self._rush_post_accumulate_hooks, hook)


@attach
def retain_grad(self):
    """Keep this non-leaf tensor's gradient in ``.grad``."""
    if not self._rush_needs_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self._rush_grad_node is None or self._rush_gradient_hook is not None:
        return
    retained(self)


def retained(tensor):
    """Make a tensor's current node retain its gradient, instead of the former node: an in-place operator replaces the
    value."""
    if tensor._rush_gradient_hook is not None:
        tensor._rush_gradient_hook.remove()
    ref = weakref.ref(tensor)

    def keep_gradient(gradient):
        known = ref()
        if known is not None and gradient is not None:
            known._rush_gradient = gradient if known._rush_gradient is None else known._rush_gradient + gradient

    tensor._rush_gradient_hook = on_step(tensor, keep_gradient, Retained)
