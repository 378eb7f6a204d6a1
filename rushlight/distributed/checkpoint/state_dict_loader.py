"""Loading a state into all processes that have a part of it."""
from __future__ import annotations

import os

import rushlight as torch

from .coordination import Together
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader
from .state_dict_saver import alone
from .stateful import Stateful

__all__ = ["load_state_dict", "load"]


def reader_of(storage_reader, checkpoint_id):
    """Return the given reader, or one of a directory.  RuntimeError if neither is given."""
    if storage_reader is None:
        if not checkpoint_id:
            raise RuntimeError("`checkpoint_id` must be specified if storage_reader is None.")
        return FileSystemReader(checkpoint_id)
    storage_reader.reset(checkpoint_id)
    return storage_reader


def load(state_dict, *, checkpoint_id: str | os.PathLike | None = None, storage_reader=None, planner=None,
         process_group=None, no_dist=False) -> None:
    """Loads a checkpoint into the tensors of a nested state; other values are replaced.  Tensors may be sharded
    differently than when they were saved.

    CheckpointException if a process fails: for a name that the checkpoint lacks, or a tensor of another size.
    """
    states = {}
    for key in sorted(state_dict, key=str):
        value = state_dict[key]
        states[key] = value.state_dict() if not isinstance(value, torch.Tensor) and isinstance(
            value, Stateful) else value
    read(states, reader_of(storage_reader, checkpoint_id), process_group, 0, alone(no_dist), planner)
    for key, value in list(state_dict.items()):
        if not isinstance(value, torch.Tensor) and isinstance(value, Stateful):
            value.load_state_dict(states[key])
        else:
            state_dict[key] = states[key]
    for key in states.keys() - state_dict.keys():
        state_dict[key] = states[key]


def load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False,
                    planner=None) -> None:
    """Deprecated form of ``load``."""
    storage_reader.reset()
    read(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


def read(state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    """Plans, and reads."""
    together, planner = Together(process_group, not no_dist, coordinator_rank), planner or DefaultLoadPlanner()
    metadata = together.broadcast("metadata", storage_reader.read_metadata)

    def local_plan():
        planner.set_up_planner(state_dict, metadata, together.is_coordinator)
        storage_reader.set_up_storage_reader(metadata, together.is_coordinator)
        return storage_reader.prepare_local_plan(planner.create_local_plan())

    def global_plan(plans):
        return storage_reader.prepare_global_plan(planner.create_global_plan(plans))

    def fill():
        storage_reader.read_data(planner.finish_plan(plan), planner).wait()

    plan = together.reduce_scatter("plan", local_plan, global_plan)
    together.all_gather("read", fill)


def _load_state_dict_from_keys(keys=None, *, checkpoint_id=None, storage_reader=None, process_group=None) -> dict:
    """Return the part of a checkpoint below some names: all of it without names."""
    found: dict = {}
    keys = {keys} if isinstance(keys, str) else keys
    read(found, reader_of(storage_reader, checkpoint_id), process_group, 0, alone(False),
         _EmptyStateDictLoadPlanner(keys or None))
    return found
