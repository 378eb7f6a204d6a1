"""Values that one process of a group makes for all, or each for all, with errors that all hear of."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import collectives

__all__ = ["SyncPayload", "broadcast", "all_gather", "all_gather_object_enforce_type"]


@dataclass
class SyncPayload:
    """A process's value, or the exception that it raised instead."""

    stage_name: str | None
    success: bool
    payload: Any
    exception: Exception | None = None

    def complaint(self, rank) -> str:
        """Return the reason why there is no value, as text."""
        return ": ".join([f"Rank {rank} failed", *([f"stage {self.stage_name}"] if self.stage_name else []),
                          *([f"exception {self.exception}"] if self.exception is not None else [])])


def made(data_or_fn, stage_name, success=True) -> SyncPayload:
    """Return the payload of a value, or of what a function returns."""
    if not callable(data_or_fn):
        return SyncPayload(stage_name, success, data_or_fn)
    try:
        return SyncPayload(stage_name, success, data_or_fn())
    except Exception as error:  # raised by all processes
        return SyncPayload(stage_name, False, None, error)


def broadcast(data_or_fn, *, success: bool = True, stage_name: str | None = None, rank: int = 0, pg=None):
    """Return the value of the process ``rank`` of a group in all its processes; a function runs in that process alone.
    Without a group, return this process's value.  RuntimeError in all processes if the function fails, or ``success``
    is False there.

    >>> broadcast(lambda: 3)
    3
    """
    if not success and data_or_fn is not None:
        raise AssertionError("Data or Function is expected to be None if not successful")
    found = SyncPayload(stage_name, True, None)
    if pg is None or pg.rank() == rank:
        found = made(data_or_fn, stage_name, success)
    if pg is not None:
        box = [found]
        collectives.broadcast_object_list(box, group=pg, group_src=rank)
        found = box[0]
    if not found.success:
        raise RuntimeError(found.complaint(rank)) from found.exception
    return found.payload


def all_gather(data_or_fn, stage_name: str | None = None, pg=None) -> list:
    """Return the values of all processes of a group, by rank, in all processes; functions are called.  RuntimeError in
    all processes if a function fails in one.

    >>> all_gather(lambda: 3)
    [3]
    """
    found = [made(data_or_fn, stage_name)]
    if pg is not None:
        every = [None] * pg.size()
        collectives.all_gather_object(every, found[0], group=pg)
        found = every
    for rank, one in enumerate(found):
        if not one.success:
            raise RuntimeError(one.complaint(rank)) from one.exception
    return [one.payload for one in found]


def all_gather_object_enforce_type(pg, object_list, obj, type_checker=lambda x, y: type(x) is type(y)) -> None:
    """``all_gather_object`` into ``object_list``.  TypeError in all processes where ``type_checker`` finds that one's
    object is of another type than the first's."""
    collectives.all_gather_object(object_list, obj, group=pg)
    for rank, one in enumerate(object_list):
        if not type_checker(object_list[0], one):
            raise TypeError(f"the object of rank {rank} is of type {type(one)}, that of the first of "
                            f"{type(object_list[0])}")


def _sync_module_states(module, process_group, broadcast_bucket_size, src, params_and_buffers_to_ignore,
                        broadcast_buffers=True):
    """Give all processes of a group the parameters of a module on its rank ``src``, and its buffers, too, with
    ``broadcast_buffers``, but those with names to ignore."""
    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    states = [state.detach() for name, state in named if name not in params_and_buffers_to_ignore]
    _sync_params_and_buffers(process_group, states, broadcast_bucket_size, src)


def _sync_params_and_buffers(process_group, module_states, broadcast_bucket_size, src):
    """Give all processes of a group the tensors on its rank ``src``, about ``broadcast_bucket_size`` bytes a time."""
    buckets: dict = {}  # (device, number) -> tensors
    sizes: dict = {}
    for state in module_states:
        sizes[state.device] = sizes.get(state.device, 0) + state.nbytes
        buckets.setdefault((state.device, sizes[state.device] // max(broadcast_bucket_size, 1)), []).append(state)
    for tensors in buckets.values():
        process_group.broadcast_from(tensors, src)
