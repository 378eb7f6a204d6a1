"""Steps of several processes: each does its part, one combines them, and an error of one is an error of all."""
from __future__ import annotations

from .. import membership
from ..collectives import broadcast_object_list, gather_object, scatter_object_list
from .api import CheckpointException, _is_wrapped_exception, _wrap_exception


class Together:
    """The processes of a group; of none where ``use_dist`` is false: this process alone.  ``coordinator_rank`` is a
    rank within the group."""

    def __init__(self, group=None, use_dist=True, coordinator_rank=0):
        self.group, self.use_dist, self.coordinator = group, use_dist, coordinator_rank
        self.rank, self.size = (membership.get_rank(group), membership.get_world_size(group)) if use_dist else (0, 1)
        self.is_coordinator = not use_dist or self.rank == self.coordinator

    def gathered(self, value) -> list | None:
        """Return the values of all processes in the coordinator."""
        if not self.use_dist:
            return [value]
        found = [None] * self.size if self.is_coordinator else None
        gather_object(value, found, group=self.group, group_dst=self.coordinator)
        return found

    def told(self, value):
        """Return the coordinator's value."""
        if not self.use_dist:
            return value
        box = [value]
        broadcast_object_list(box, group=self.group, group_src=self.coordinator)
        return box[0]

    def shared_out(self, values):
        """This process's of the coordinator's values."""
        if not self.use_dist:
            return values[0]
        box = [None]
        scatter_object_list(box, values if self.is_coordinator else None, group=self.group, group_src=self.coordinator)
        return box[0]

    def attempt(self, function, *args):
        try:
            return function(*args)
        except Exception as error:
            return _wrap_exception(error)

    def combined(self, step, results, whole):
        """Return ``whole(results)``; previous errors give a CheckpointException."""
        wrong = {k: r for k, r in enumerate(results) if _is_wrapped_exception(r)}
        if not wrong:
            found = self.attempt(whole, results)
            if not _is_wrapped_exception(found):
                return found
            wrong = {self.rank: found}
        return CheckpointException(step, wrong)

    def reduce_scatter(self, step: str, part, whole):
        """Run ``part()`` in each process, ``whole(parts)`` in the coordinator: a list with a value for each process."""
        parts, answers = self.gathered(self.attempt(part)), None
        if self.is_coordinator:
            found = self.combined(step, parts, whole)
            answers = [found] * self.size if isinstance(found, CheckpointException) else list(found)
        return raised(self.shared_out(answers))

    def all_reduce(self, step: str, part, whole):
        """Run ``part()`` in each process, ``whole(parts)`` in the coordinator; all get its value."""
        parts = self.gathered(self.attempt(part))
        return raised(self.told(self.combined(step, parts, whole) if self.is_coordinator else None))

    def all_gather(self, step: str, part):
        """``part()`` of every process, in every process."""
        return self.all_reduce(step, part, list)

    def broadcast(self, step: str, part):
        """``part()`` of the coordinator, in every process."""
        found = None
        if self.is_coordinator:
            found = self.attempt(part)
            found = CheckpointException(step, {self.rank: found}) if _is_wrapped_exception(found) else found
        return raised(self.told(found))


def raised(value):
    if isinstance(value, CheckpointException):
        raise value
    return value
