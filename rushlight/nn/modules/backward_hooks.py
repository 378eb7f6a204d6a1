"""Module backward hooks: identity functions around a module's inputs and outputs that see the gradients pass."""
from __future__ import annotations

from ...autograd.function import Function
from ...core.native import Tensor


class Gate(Function):
    """Passes tensors on; its backward hands all gradients to a function at once."""

    @staticmethod
    def forward(ctx, seen, *tensors):
        ctx.seen = seen
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        return (None, *ctx.seen(gradients))


class Watch:
    """Calls a module's backward hooks once the gradients of its outputs, then those of its inputs are known."""

    def __init__(self, module, hooks, pre_hooks):
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.output_gradients, self.has_inputs = None, False

    def gated(self, values, seen):
        values = list(values)
        at = [k for k, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad]
        if at:
            for k, v in zip(at, Gate.apply(lambda gs: seen(self.spread(gs, at, len(values)), at), *[values[k] for k in at])):
                values[k] = v
        return values, bool(at)

    @staticmethod
    def spread(gradients, at, count):
        full = [None] * count
        for k, g in zip(at, gradients):
            full[k] = g
        return tuple(full)

    def inputs(self, args):
        values, self.has_inputs = self.gated(args, self.on_inputs)
        return tuple(values)

    def outputs(self, result):
        single = isinstance(result, Tensor)
        if not single and not isinstance(result, tuple):
            return result
        values, _ = self.gated([result] if single else result, self.on_outputs)
        return values[0] if single else tuple(values)

    def on_outputs(self, gradients, at):
        for hook in self.pre_hooks:
            changed = hook(self.module, gradients)
            gradients = gradients if changed is None else changed if isinstance(changed, tuple) else (changed,)
        self.output_gradients = gradients
        if not self.has_inputs:
            for hook in self.hooks:
                hook(self.module, (None,), gradients)
        return [gradients[k] for k in at]

    def on_inputs(self, gradients, at):
        for hook in self.hooks:
            changed = hook(self.module, gradients, self.output_gradients)
            gradients = gradients if changed is None else changed if isinstance(changed, tuple) else (changed,)
        return [gradients[k] for k in at]
