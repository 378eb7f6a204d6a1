"""Copies of a module, whose parameters are those of the original on another device: gradients reach the original."""
from __future__ import annotations

from ..modules.module import Module

__all__ = ["replicate"]


def replicate(network: Module, devices, detach: bool = False) -> list[Module]:
    """A copy of a module for each device; ``detach``: gradients do not reach the original."""
    return [replica(network, device, detach, {}) for device in devices]


def replica(module: Module, device, detach: bool, made: dict) -> Module:
    if module in made:
        return made[module]
    copy = made[module] = type(module).__new__(type(module))
    copy.__dict__.update(module.__dict__)
    copy._is_replica, copy._former_parameters, copy._parameters = True, {}, {}
    copy._buffers = {name: value if value is None else value.to(device) for name, value in module._buffers.items()}
    copy._modules = {name: child if child is None else replica(child, device, detach, made)
                     for name, child in module._modules.items()}
    for name, value in module._parameters.items():
        if value is None:
            copy._parameters[name] = None
            continue
        moved = (value.detach() if detach else value).to(device).view_as(value)
        object.__setattr__(copy, name, moved)
        copy._former_parameters[name] = moved
    return copy
