"""Arguments in parts, one for each device, and results joined: tensors along a dimension, containers element by
element, other objects in every part."""
from __future__ import annotations

from ..._src.core.native import Tensor
from ..._src.core.pytree import is_namedtuple as of_namedtuple
from ..._src.ops.pieces import cat, stack

__all__ = ["scatter", "scatter_kwargs", "gather"]


def is_namedtuple(obj) -> bool:
    """Whether an object is a named tuple."""
    return _is_namedtuple(obj)


def _is_namedtuple(obj) -> bool:
    return of_namedtuple(type(obj))


def scatter(inputs, target_gpus, dim=0) -> list:
    """One object like ``inputs`` for each device.

    >>> import rushlight as torch
    >>> torch.nn.parallel.scatter({"x": torch.arange(4), "k": 3}, ["cpu", "cpu"])
    [{'x': tensor([0, 1]), 'k': 3}, {'x': tensor([2, 3]), 'k': 3}]
    """
    def parts(value) -> list:
        if isinstance(value, Tensor):
            return [part.to(device) for part, device in zip(value.chunk(len(target_gpus), dim), target_gpus)]
        if isinstance(value, (tuple, list)) and value:
            build = (lambda found: type(value)(*found)) if _is_namedtuple(value) else type(value) if isinstance(
                value, list) else tuple
            return [build(found) for found in zip(*map(parts, value))]
        if isinstance(value, dict) and value:
            return [type(value)(zip(value, found)) for found in zip(*map(parts, value.values()))]
        return [value] * len(target_gpus)

    return parts(inputs)


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """Arguments and keywords in parts: tuples of equal length, empty arguments where there are fewer."""
    arguments, keywords = scatter(inputs, target_gpus, dim) if inputs else [], scatter(kwargs, target_gpus,
                                                                                       dim) if kwargs else []
    length = max(len(arguments), len(keywords))
    return tuple(arguments + [()] * (length - len(arguments))), tuple(keywords + [{}] * (length - len(keywords)))


def gather(outputs, target_device, dim=0):
    """Results of the devices as one: tensors joined along ``dim``, scalars as a vector.  ValueError where dicts differ
    in size."""
    first = outputs[0]
    if isinstance(first, Tensor):
        moved = [value.to(target_device) for value in outputs]
        return cat(moved, dim) if first.dim() else stack(moved)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(value) != len(first) for value in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([value[key] for value in outputs], target_device, dim)) for key in first)
    joined = [gather(values, target_device, dim) for values in zip(*outputs)]
    return type(first)(*joined) if _is_namedtuple(first) else type(first)(joined)
