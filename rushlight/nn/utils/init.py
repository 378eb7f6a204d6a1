"""Modules made without initial values."""
from __future__ import annotations

import inspect

import rushlight as torch

__all__ = ["skip_init"]


def skip_init(module_cls, *args, **kwargs):
    """A module whose parameters hold whatever the memory held.  RuntimeError for a class that takes no ``device``."""
    if not issubclass(module_cls, torch.nn.Module):
        raise RuntimeError(f"skip_init() makes modules, and {module_cls.__name__} is not a class of them")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(
            f"{module_cls.__name__} takes no 'device', so it cannot be made without memory for its parameters")
    target = kwargs.pop("device", "cpu")
    return module_cls(*args, **{**kwargs, "device": "meta"}).to_empty(device=target)
