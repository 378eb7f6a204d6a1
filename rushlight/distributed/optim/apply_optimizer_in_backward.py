"""Optimizers that step as soon as a parameter's gradient is there."""
from __future__ import annotations

from ...utils.weak import WeakTensorKeyDictionary

__all__: list = []

param_to_optim_hook_handle_map = WeakTensorKeyDictionary()  # a parameter -> handles of the hooks that step


def _apply_optimizer_in_backward(optimizer_class, params, optimizer_kwargs, register_hook: bool = True):
    """Updates each parameter by an optimizer of its own during the backward pass, after which it has no gradient.
    Several optimizers of a parameter step in the order of the calls.

    ``register_hook``: True if a hook steps when the gradient is accumulated; else the caller does.
    ``DistributedDataParallel`` steps with averages instead.

    >>> import rushlight as torch
    >>> model = torch.nn.Linear(2, 1, bias=False)
    >>> _apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": 0.5})
    >>> before = model.weight.detach().clone()
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> (before - model.weight).tolist(), model.weight.grad
    ([[0.5, 0.5]], None)
    """
    for param in params:
        if not hasattr(param, "_in_backward_optimizers"):
            param._in_backward_optimizers, param._optimizer_classes, param._optimizer_kwargs = [], [], []
        param._in_backward_optimizers.append(optimizer_class([param], **optimizer_kwargs))
        param._optimizer_classes.append(optimizer_class)
        param._optimizer_kwargs.append(optimizer_kwargs)
        if register_hook and param not in param_to_optim_hook_handle_map:
            param_to_optim_hook_handle_map[param] = [param.register_post_accumulate_grad_hook(step)]


def step(param):
    """Step with the optimizers of a parameter, and drop its gradient."""
    for optimizer in param._in_backward_optimizers:
        optimizer.step()
    param.grad = None


def has_own_optimizers(param) -> bool:
    """True if a parameter has optimizers that step during backward passes."""
    return hasattr(param, "_in_backward_optimizers")


def remove_hooks(params):
    """Leave it to the caller to step with the optimizers of parameters."""
    for param in params:
        for handle in param_to_optim_hook_handle_map.pop(param, ()):
            handle.remove()


def _get_in_backward_optimizers(module) -> list:
    """The optimizers that step during backward passes with the parameters of a module, for checkpoints."""
    return [optimizer for param in module.parameters() for optimizer in getattr(param, "_in_backward_optimizers", ())]
