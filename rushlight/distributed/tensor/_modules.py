"""Modules whose parameters are tensors over several processes."""
from __future__ import annotations

import inspect

import rushlight as torch

from ..._src.core.advice import warn
from ._api import DTensor, current_mesh, distribute_tensor
from .placement_types import Replicate

__all__ = ["distribute_module"]


def distribute_module(module, device_mesh=None, partition_fn=None, input_fn=None, output_fn=None):
    """Makes the parameters and buffers of a module DTensors: by ``partition_fn(name, submodule, mesh)``; those it does
    not handle are replicated.  ``input_fn(module, inputs, mesh)`` runs before forward, ``output_fn(module, outputs,
    mesh)`` after it."""
    mesh = device_mesh or current_mesh()
    whole = [Replicate()] * mesh.ndim
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has already been called on this module!")
    for name, submodule in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, submodule, mesh)
        for key, parameter in submodule._parameters.items():
            if parameter is not None and not isinstance(parameter, DTensor):
                submodule.register_parameter(key, torch.nn.Parameter(distribute_tensor(parameter.detach(), mesh, whole),
                                                                     parameter.requires_grad))
        for key, buffer in submodule._buffers.items():
            if buffer is not None and not isinstance(buffer, DTensor):
                submodule._buffers[key] = distribute_tensor(buffer, mesh, whole)
    if input_fn is not None:
        begin = taking_module(input_fn, "input_fn", "inputs")
        module.register_forward_pre_hook(lambda mod, inputs: begin(mod, inputs, mesh))
    if output_fn is not None:
        end = taking_module(output_fn, "output_fn", "outputs")
        module.register_forward_hook(lambda mod, inputs, outputs: end(mod, outputs, mesh))
    module._distribute_module_applied = True
    return module


def taking_module(function, name: str, values: str):
    """A function of (module, values, mesh) for one of these or of (values, mesh), which is an older form: FutureWarning
    for it."""
    if len(inspect.signature(function).parameters) != 2:
        return function
    warn(f"Deprecating {name} that takes two arguments ({values}, device_mesh), please use {name} that takes in "
         f"(module, {values}, device_mesh) instead!", FutureWarning)
    return lambda module, given, mesh: function(given, mesh)
