"""States of optimizers in checkpoints, split as the parameters that they belong to."""
from __future__ import annotations

from ..tensor import DTensor
from ..._src.core.op import OPS
from ..._src.flat import empty
from ._nested_dict import unflatten_state_dict
from .metadata import TensorStorageMetadata
from .state_dict_loader import load_state_dict

__all__ = ["load_sharded_optimizer_state_dict"]


def load_sharded_optimizer_state_dict(model_state_dict: dict, optimizer_key: str, storage_reader, planner=None) -> dict:
    """Return {``optimizer_key``: the state that a checkpoint has there}.  States of parameters that are DTensors in
    ``model_state_dict`` are sharded as these, others are full."""
    metadata = storage_reader.read_metadata()
    paths = {name: path for name, path in metadata.planner_data.items() if path[0] == optimizer_key}
    state = {name: allocate(metadata.state_dict_metadata[name], model_state_dict.get(path[2]) if len(path) > 2
                            else None) for name, path in paths.items()}
    load_state_dict(state, storage_reader, planner=planner)
    return unflatten_state_dict(state, paths)


def allocate(entry, parameter):
    """Return a tensor for an entry of a checkpoint, sharded as a parameter of its size; None for other entries."""
    if not isinstance(entry, TensorStorageMetadata):
        return None
    if isinstance(parameter, DTensor) and parameter.shape == entry.size:
        return OPS["empty_like"](parameter, dtype=entry.properties.dtype)
    return empty(entry.size, dtype=entry.properties.dtype)
