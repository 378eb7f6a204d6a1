"""Full state dicts: gathered from shards, broadcast by the first process, and sharded again."""
from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import rushlight as torch

from .. import collectives, membership
from ..tensor import DTensor, distribute_tensor


class Hole(NamedTuple):
    """The placeholder of a tensor in the description of a state dict."""

    shape: tuple
    dtype: torch.dtype
    kind: str  # of device


def mapped(state, change, path=()):
    """Return a nested state with ``change(path, value)`` in place of each value, except mappings and lists."""
    if isinstance(state, Mapping):
        return {key: mapped(value, change, (*path, key)) for key, value in state.items()}
    if type(state) in (list, tuple):
        return type(state)(mapped(value, change, (*path, k)) for k, value in enumerate(state))
    return change(path, state)


def alone() -> bool:
    return not torch.distributed.is_initialized() or membership.get_world_size() == 1


def put_together(state, only_first: bool):
    """Return a state with full tensors in place of DTensors, in every process, or ``{}`` in all but the first."""
    kept = not only_first or alone() or membership.get_rank() == 0

    def whole(path, value):
        if not isinstance(value, DTensor):
            return value
        found = value.detach().full_tensor()
        return found if kept else None  # the others take part, and keep nothing
    found = mapped(state, whole)
    return found if kept else {}


def split_as(value, model):
    """Return a full tensor, the same in all processes, with the placements of ``model``."""
    if not isinstance(model, DTensor) or isinstance(value, DTensor) or not isinstance(value, torch.Tensor):
        return value
    return distribute_tensor(value.detach(), model.device_mesh, model.placements, src_data_rank=None)


def split(state, model_of):
    """Return a state dict of full tensors, each with the placements of ``model_of(path)``."""
    return mapped(state, lambda path, value: split_as(value, model_of(path)))


def sent_by_first(state, model_of):
    """Return the first process's state dict in all processes, each tensor sharded as ``model_of(path)`` when it
    arrives: other processes than the first have at most one full tensor of the sharded ones."""
    first, tensors = membership.get_rank() == 0, []

    def described(path, value):
        if not isinstance(value, torch.Tensor):
            return value
        whole = value.full_tensor() if isinstance(value, DTensor) else value
        tensors.append(whole.detach())
        return Hole(tuple(whole.shape), whole.dtype, whole.device.type)

    box = [mapped(state, described) if first else None]
    collectives.broadcast_object_list(box, src=0)
    coming, where = iter(tensors), membership.device_for()

    def filled(path, value):
        tensor = next(coming).contiguous().clone().to(where) if first else torch.empty(value.shape, dtype=value.dtype,
                                                                                       device=where)
        collectives.broadcast(tensor, src=0)
        return split_as(tensor.to(value.kind), model_of(path))
    return holes_filled(box[0], filled)


def holes_filled(state, fill, path=()):
    """Return a described state with ``fill(path, hole)`` in place of each Hole."""
    if isinstance(state, Hole):
        return fill(path, state)
    if isinstance(state, Mapping):
        return {key: holes_filled(value, fill, (*path, key)) for key, value in state.items()}
    if type(state) in (list, tuple):
        return type(state)(holes_filled(value, fill, (*path, k)) for k, value in enumerate(state))
    return state
