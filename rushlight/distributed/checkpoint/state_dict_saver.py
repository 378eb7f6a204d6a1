"""Saving a state from all processes that have a part of it."""
from __future__ import annotations

import enum
import os
import threading
import warnings
from concurrent.futures import Future, wait
from dataclasses import dataclass

import rushlight as torch

from ..._src.core.options import accept_only
from .. import membership
from ..worlds import here
from .coordination import Together
from .default_planner import DefaultSavePlanner
from .filesystem import FileSystemWriter
from .metadata import Metadata
from .staging import AsyncStager, BlockingAsyncStager, ready
from .stateful import Stateful

__all__ = ["save_state_dict", "save", "async_save", "AsyncCheckpointerType", "AsyncSaveResponse"]


class AsyncCheckpointerType(enum.Enum):
    """The kind of worker that writes while training continues."""

    THREAD, PROCESS = "thread", "process"


@dataclass
class AsyncSaveResponse:
    """The result of ``async_save`` if copying is asynchronous, too."""

    staging_completion: Future
    upload_completion: Future


def writer_of(storage_writer, checkpoint_id):
    """Return the given writer, or one into a directory.  RuntimeError if neither is given."""
    if storage_writer is None:
        if not checkpoint_id:
            raise RuntimeError("`checkpoint_id` must be specified if storage_writer is None.")
        return FileSystemWriter(checkpoint_id, single_file_per_rank=True, overwrite=True)
    storage_writer.reset(checkpoint_id)
    return storage_writer


def states_of(state_dict) -> dict:
    """Return the values to save: Stateful objects are replaced by their state dicts."""
    return {key: value.state_dict() if not isinstance(value, torch.Tensor) and isinstance(value, Stateful) else value
            for key, value in state_dict.items()}


def alone(no_dist: bool) -> bool:
    """True if a process saves or loads by itself."""
    if not no_dist and not membership.is_initialized():
        warnings.warn(
            "torch.distributed is disabled, unavailable or uninitialized, assuming the intent is to save in a single "
            "process.", stacklevel=3)
    return no_dist or not membership.is_initialized()


def save(state_dict, *, checkpoint_id: str | os.PathLike | None = None, storage_writer=None, planner=None,
         process_group=None, no_dist=False,
         use_collectives=True) -> Metadata:
    """Saves a nested state: each process its chunks of sharded tensors, and its share of replicated values.  All
    processes of the group call it.

    CheckpointException if a process fails: the directory then keeps its previous checkpoint.

    >>> import rushlight as torch, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> found = save({"model": torch.nn.Linear(2, 1).state_dict(), "step": 3}, checkpoint_id=folder, no_dist=True)
    >>> list(found.state_dict_metadata)
    ['model.weight', 'model.bias', 'step']
    """
    if not use_collectives:
        raise NotImplementedError("save(use_collectives=False): every process would write metadata of its own")
    return written(states_of(state_dict), writer_of(storage_writer, checkpoint_id), process_group, 0, alone(no_dist),
                   planner)


def save_state_dict(state_dict, storage_writer, process_group=None, coordinator_rank=0, no_dist=False,
                    planner=None) -> Metadata:
    """Deprecated form of ``save``."""
    storage_writer.reset()
    return written(states_of(state_dict), storage_writer, process_group, coordinator_rank, no_dist, planner)


def written(state_dict, writer, group, coordinator_rank, no_dist, planner) -> Metadata:
    """Plan, write, and write the metadata."""
    together, planner, known = Together(group, not no_dist, coordinator_rank), planner or DefaultSavePlanner(), []

    def local_plan():
        planner.set_up_planner(state_dict=state_dict, storage_meta=writer.storage_meta(),
                               is_coordinator=together.is_coordinator)
        writer.set_up_storage_writer(together.is_coordinator)
        return writer.prepare_local_plan(planner.create_local_plan())

    def global_plan(plans):
        plans, metadata = planner.create_global_plan(plans)
        known.append(metadata)
        return writer.prepare_global_plan(plans)

    def write():
        return writer.write_data(planner.finish_plan(plan), planner).wait()

    def finish(results):
        writer.finish(known[0], results)
        return known[0]

    plan = together.reduce_scatter("plan", local_plan, global_plan)
    return together.all_reduce("write", write, finish)


def find_upload_group(process_group):
    """Return the group in which threads write checkpoints of a group's processes, so that their messages never match
    those of training.  The first call of all processes makes it."""
    group = membership.chosen(process_group)
    if group.uploads is None:
        group.uploads = membership.new_group(group.ranks, use_local_synchronization=True, group_desc="async_save")
    return group.uploads


def write_staged(world, staged, done, before, writer, group, no_dist, planner):
    """Sets the Future ``done`` to the Metadata of a copied state, once the Future ``before`` is done; ``staged`` is
    that state, or a Future of it."""
    try:
        world.enter()
        if before is not None:
            wait([before])  # checkpoints of a group are written one after another, in all processes alike
        done.set_result(written(ready(staged), writer, group, 0, no_dist, planner))
    except BaseException as error:  # a CheckpointException is none of Python's Exceptions
        done.set_exception(error)


def start_thread(staged, writer, process_group, no_dist, planner) -> Future:
    """Has a thread write a copied state; returns the Future of its Metadata."""
    group, done, before = None if no_dist else find_upload_group(process_group), Future(), None
    if group is not None:
        before, group.last_upload = group.last_upload, done
    threading.Thread(target=write_staged, name="async_save",
                     args=(here(), staged, done, before, writer, group, no_dist, planner)).start()
    return done


def async_save(state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None,
               async_checkpointer_type=AsyncCheckpointerType.THREAD,
               async_stager: AsyncStager | None = None, no_dist=False, use_collectives=True):
    """Copies the state, and writes the copy in a thread: a Future (of ``concurrent.futures``) of the Metadata.  With a
    stager that copies in a thread, too, an AsyncSaveResponse.  All processes of the group call it.

    The threads have a group of their own, with the processes of ``process_group``, and write checkpoints one after
    another.  With ``AsyncCheckpointerType.PROCESS`` each process has a further process that writes: it starts once,
    imports the main module as ``multiprocessing`` does, and has a group of its own; planners and writers are pickled.
    If one of these processes ends before a checkpoint is complete, the result is RuntimeError in all, and the next call
    starts others.
    """
    accept_only("async_save", "leave it out: the processes agree on one plan", use_collectives=(use_collectives, True))
    writer, no_dist = writer_of(storage_writer, checkpoint_id), alone(no_dist)
    stager = async_stager or (writer if isinstance(writer, AsyncStager) else BlockingAsyncStager())
    values = states_of(state_dict)
    if async_checkpointer_type is AsyncCheckpointerType.PROCESS:
        from .saver import saver_of
        staged, done = saver_of(process_group, no_dist).stage_and_save(stager, values, writer, planner)
    else:
        staged = stager.stage(values)
        done = start_thread(staged, writer, process_group, no_dist, planner)
    if isinstance(staged, Future):
        return AsyncSaveResponse(staged, done)
    if stager.should_synchronize_after_execute:
        stager.synchronize_staging()
    return done
