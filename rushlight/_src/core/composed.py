"""Tensors that wrap another one, through which their gradients flow: the common part of sparse and nested tensors."""
from __future__ import annotations

import weakref

from .native import Tensor
from .op import OPS


class Composed(Tensor):
    """A tensor that shows another one, ``inner``, and has its history.  ``around(inner)`` shows another one in the same
    way."""

    by_operators = True  # a function that is none is answered by those that it is made of
    is_leaf = property(lambda self: self.inner.is_leaf)
    grad_fn = property(lambda self: self.inner.grad_fn)

    @property
    def requires_grad(self):
        return self.inner.requires_grad

    @requires_grad.setter
    def requires_grad(self, value):
        self.inner.requires_grad = value

    def requires_grad_(self, requires_grad=True):
        """Sets ``requires_grad`` in place."""
        self.inner.requires_grad_(requires_grad)
        return self

    @property
    def retains_grad(self):
        return self.inner.retains_grad

    @property
    def grad(self):
        """The gradient, a tensor of the same kind."""
        found = self.inner.grad
        return None if found is None else self.gradient(found)

    @grad.setter
    def grad(self, value):
        self.inner.grad = None if value is None else self.inner_gradient(value)

    def gradient(self, inner):
        """The gradient, given that of the inner tensor."""
        return self.around(inner)

    def inner_gradient(self, value):
        """The gradient of the inner tensor, given one as ``gradient`` makes them."""
        return value.inner

    def as_gradient(self):
        """This, as the gradient of a tensor that is around none."""
        return self.inner

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """Backward from the inner tensor; ``gradient`` is one as ``gradient()`` makes them."""
        self.inner.backward(None if gradient is None else self.inner_gradient(gradient), retain_graph, create_graph,
                            inputs)

    def register_hook(self, hook):
        """Calls ``hook`` with the gradient, a tensor of the same kind, when it is computed; a tensor that it returns
        replaces the gradient."""
        shown = self.around(self.inner.detach())  # the hook must not keep the tensor that keeps the hook

        def call(inner):
            found = hook(None if inner is None else shown.gradient(inner))
            return None if found is None else shown.inner_gradient(found)

        return self.inner.register_hook(call)

    def register_post_accumulate_grad_hook(self, hook):
        """Calls ``hook`` with this leaf after a gradient was accumulated into it."""
        shown, own = self.around(self.inner.detach()), weakref.ref(self)

        def call(inner):
            known = own()
            return hook(shown.around(inner) if known is None else known)

        return self.inner.register_post_accumulate_grad_hook(call)

    def retain_grad(self):
        """Keeps this non-leaf tensor's gradient in ``grad``."""
        self.inner.retain_grad()

    def detach_(self):
        """Removes the history in place."""
        self.inner.detach_()
        return self

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                "moment")
        copied = memo[id(self)] = self.around(self.inner.detach().clone()).requires_grad_(self.requires_grad)
        return copied


def rulebook():
    """A table from operators to their implementations for tensors of one class, and the decorator ``rule(*names)`` that
    fills it."""
    rules: dict = {}

    def rule(*names):
        def enter(function):
            rules.update((OPS[name], function) for name in names)
            return function
        return enter

    return rules, rule


def member(function) -> str:
    """The name of a member of Tensor, a method or the getter of a property."""
    return getattr(getattr(function, "__self__", None), "fget", function).__name__
