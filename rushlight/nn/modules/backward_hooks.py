"""Module backward hooks: identity functions around a module's inputs and outputs that see the gradients pass."""
from __future__ import annotations

from ..._src.autograd.function import Function
from ..._src.core.advice import warn
from ..._src.core.native import Tensor


class BackwardHookFunction(Function):
    """Passes tensors on; its backward hands all gradients to a function at once."""

    @staticmethod
    def forward(ctx, seen, *tensors):
        ctx.seen = seen
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        if all(g is None for g in gradients):  # no gradient arrives, as when a double backward takes another path
            return (None, *gradients)
        return (None, *ctx.seen(gradients))


def answered(changed, gradients, name):
    """The gradients after a hook's answer, which must be as many."""
    if changed is None:
        return gradients
    changed = changed if isinstance(changed, tuple) else (changed,)
    if len(changed) != len(gradients):
        raise RuntimeError(
            f"Backward hook returned an invalid number of {name}, got {len(changed)}, but expected {len(gradients)}")
    return changed


def as_tuple(kind, values):
    """A tuple of a class: a named tuple takes its fields one by one."""
    return kind(*values) if hasattr(kind, "_fields") else tuple(values)


class Watch:
    """Calls a module's backward hooks once the gradients of its outputs, then those of its inputs are known."""

    def __init__(self, module, hooks, pre_hooks):
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.output_gradients, self.input_count, self.has_inputs = None, 0, False

    def gated(self, values, seen):
        values = list(values)
        at = [k for k, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad]
        if at:
            constant = {k: v.detach() for k, v in enumerate(values) if isinstance(v, Tensor) and not v.requires_grad}
            passed = BackwardHookFunction.apply(
                lambda gs: seen(self.spread(gs, at, constant, len(values)), at), *[values[k] for k in at])
            for k, v in zip(at, passed):
                values[k] = v
        return values, bool(at)

    @staticmethod
    def spread(gradients, at, constant, count):
        """A gradient for each value: zeros for tensors that want none, None for what is no tensor."""
        found = dict(zip(at, gradients))
        return tuple(constant[k].new_zeros(constant[k].shape) if k in constant else found.get(k) for k in range(count))

    def inputs(self, args):
        values, self.has_inputs = self.gated(args, self.on_inputs)
        self.input_count = len(values)
        return tuple(values)

    def outputs(self, result):
        single = isinstance(result, Tensor)
        if not single and not isinstance(result, tuple):
            warn("For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                 f"received {type(result)}")
            return result
        values, _ = self.gated([result] if single else result, self.on_outputs)
        return values[0] if single else as_tuple(type(result), values)

    def on_outputs(self, gradients, at):
        for hook in self.pre_hooks:
            gradients = answered(hook(self.module, gradients), gradients, "grad_output")
        self.output_gradients = gradients
        if not self.has_inputs:
            self.without_inputs(gradients)
        return [gradients[k] for k in at]

    def without_inputs(self, gradients):
        """Hooks where no input wants a gradient."""
        if self.module._is_full_backward_hook is not False:
            warn("Full backward hook is firing when gradients are computed with respect to module outputs since no "
                 "inputs require gradients: its grad_input is None.")
        for hook in self.hooks:
            changed = hook(self.module, (None,) * self.input_count, gradients)
            if changed is not None and not (isinstance(changed, tuple) and all(g is None for g in changed)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients.")

    def on_inputs(self, gradients, at):
        if self.output_gradients is None:  # they flow to the inputs by another way than the outputs: in double backward
            return [gradients[k] for k in at]
        for hook in self.hooks:
            gradients = answered(hook(self.module, gradients, self.output_gradients), gradients, "grad_input")
        self.output_gradients = None
        return [gradients[k] for k in at]
