"""Hooks of tensors: called with a gradient when it is computed, or with a leaf when its gradient is there."""
from __future__ import annotations

import weakref

from ..core.native import calls
from ..core.tensor import attach
from .node import Handle
from .steps import hooked


@attach
def register_hook(self, hook):
    """Calls ``hook(gradient)`` whenever this tensor's gradient is computed; what it returns replaces the gradient."""
    if not self._needs_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._step is None:
        self._hooks = {} if self._hooks is None else self._hooks
        return Handle(self._hooks, hook)
    slot = self._output
    step = calls.edge(self)
    step.hooks = {} if step.hooks is None else step.hooks

    def on_step(gradients):
        if slot >= len(gradients) or gradients[slot] is None:
            return None
        return (*gradients[:slot], hooked(hook, gradients[slot]), *gradients[slot + 1:])

    return Handle(step.hooks, on_step)


@attach
def register_post_accumulate_grad_hook(self, hook):
    """Calls ``hook(tensor)`` after a gradient was accumulated into this leaf."""
    if not self._needs_grad or self._step is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if not hasattr(self, "_post_accumulate_hooks"):
        self._post_accumulate_hooks = {}
    return Handle(self._post_accumulate_hooks, hook)


@attach
def retain_grad(self):
    """Keeps this non-leaf tensor's gradient in ``.grad``."""
    if not self._needs_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self._step is None or self.gradient_hook is not None:
        return
    ref = weakref.ref(self)

    def keep_gradient(gradient):
        tensor = ref()
        if tensor is not None:
            tensor._gradient = gradient if tensor._gradient is None else tensor._gradient + gradient

    self.gradient_hook = self.register_hook(keep_gradient)
