"""Modules as functions of tuples of parameters, as functorch had them before ``torch.func.functional_call``."""
from __future__ import annotations

import copy

from .._src.core.op import OPS
from ..func.modules import alike, functional_call
from ..nn.modules.module import Module

__all__ = ["FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functional_init",
           "functional_init_with_buffers", "make_functional",
           "make_functional_with_buffers"]


class FunctionalModuleWithBuffers(Module):
    """A module called with its parameters and buffers, tuples in the order of ``param_names`` and ``buffer_names``."""

    def __init__(self, stateless_model, param_names, buffer_names):
        super().__init__()
        self.stateless_model, self.param_names, self.buffer_names = stateless_model, param_names, buffer_names

    def forward(self, params, buffers, *args, **kwargs):
        given = {**dict(zip(self.param_names, params, strict=True)),
                 **dict(zip(self.buffer_names, buffers, strict=True))}
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module called with its parameters, a tuple in the order of ``param_names``."""

    def __init__(self, stateless_model, param_names):
        super().__init__(stateless_model, param_names, ())

    def forward(self, params, *args, **kwargs):
        return super().forward(params, (), *args, **kwargs)


def named_state(model) -> tuple:
    """The names of parameters and of buffers, and the tensors of each; shared ones once."""
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    return tuple(parameters), tuple(buffers), tuple(parameters.values()), tuple(buffers.values())


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """(function, parameters, buffers): ``function(parameters, buffers, *args)`` is what a copy of the module computes
    with them.

    ``disable_autograd_tracking``: the parameters do not want gradients.

    >>> f, parameters, buffers = make_functional_with_buffers(torch.nn.BatchNorm1d(2).eval())
    >>> f(parameters, buffers, torch.zeros(1, 2)).shape
    torch.Size([1, 2])
    """
    model = copy.deepcopy(model)
    names, buffer_names, parameters, buffers = named_state(model)
    if disable_autograd_tracking:
        for parameter in parameters:
            parameter.requires_grad_(False)
    return FunctionalModuleWithBuffers(model, names, buffer_names), parameters, buffers


def make_functional(model, disable_autograd_tracking=False):
    """(function, parameters): ``function(parameters, *args)`` is what a copy of the module computes with them.
    RuntimeError for a module with buffers.

    >>> f, parameters = make_functional(torch.nn.Linear(2, 1))
    >>> f(parameters, torch.zeros(3, 2)).shape
    torch.Size([3, 1])
    """
    if next(iter(model.buffers()), None) is not None:
        raise RuntimeError("make_functional(model): the model has buffers; use make_functional_with_buffers(model)")
    function, parameters, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return FunctionalModule(function.stateless_model, function.param_names), parameters


def combine_state_for_ensemble(models):
    """(function, parameters, buffers) of several models of one class, stacked along a new first dimension and without
    gradients, for ``vmap``.

    >>> f, parameters, buffers = combine_state_for_ensemble([torch.nn.Linear(2, 1) for _ in range(3)])
    >>> parameters[0].shape
    torch.Size([3, 1, 2])
    """
    models = alike("combine_state_for_ensemble", models)
    functions, parameters, buffers = zip(*map(make_functional_with_buffers, models))
    stack = lambda columns: tuple(OPS["stack"]([t.detach() for t in column]) for column in zip(*columns))
    return functions[0], stack(parameters), stack(buffers)


def functional_init_with_buffers(model_class, ensemble_shape=(), device="cpu"):
    """A function of a class's arguments: (parameters, buffers, function, names, buffer names) of as many new models as
    ``ensemble_shape``, () or (n,), says.

    ``function(parameters, buffers, args)`` takes the arguments of one model as a tuple.
    """
    if len(ensemble_shape) > 1:
        raise ValueError("NYI: ensemble_shape with more than 1 element")
    if ensemble_shape and ensemble_shape[0] <= 0:
        raise ValueError(f"num_models {ensemble_shape[0]} should be > 0")

    def made(*args, **kwargs):
        models = [model_class(*args, **kwargs).to(device) for _ in range(ensemble_shape[0] if ensemble_shape else 1)]
        function, parameters, buffers = (combine_state_for_ensemble(models) if ensemble_shape
                                         else make_functional_with_buffers(*models))
        return parameters, buffers, lambda p, b, given: function(
            p, b, *given), function.param_names, function.buffer_names

    return made


def functional_init(model_class, ensemble_shape=(), device="cpu"):
    """As ``functional_init_with_buffers``, for models without buffers: (parameters, function, names)."""
    def made(*args, **kwargs):
        parameters, buffers, function, names, _ = functional_init_with_buffers(model_class, ensemble_shape,
                                                                               device)(*args, **kwargs)
        if buffers:
            raise RuntimeError(
                "functional_init(model_class): the model has buffers; use functional_init_with_buffers(model_class)")
        return parameters, lambda p, given: function(p, (), given), names

    return made
