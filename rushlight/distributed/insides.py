"""Private functions of ``torch.distributed.distributed_c10d`` that libraries call."""
from __future__ import annotations

import pickle

from .._src.flat import frombuffer, long, tensor as made_tensor, uint8
from .membership import checked_timeout, chosen, device_for
from .process_group import ProcessGroup
from .worlds import here


class Members:
    """The world of the calling thread by PyTorch's names."""

    @property
    def default_pg(self):
        return here().default

    @property
    def pg_map(self) -> dict:
        return {group: (str(group._backend), group._store) for group in here().groups}

    @property
    def pg_names(self) -> dict:
        return {group: group.group_name for group in here().groups}

    @property
    def pg_group_ranks(self) -> dict:
        return {group: {rank: k for k, rank in enumerate(group.ranks)} for group in here().groups}

    @property
    def group_count(self) -> int:
        return here().count


_world = Members()


def _get_group_size(group) -> int:
    found = chosen(group)
    return -1 if found is None else found.size()


def _get_group_size_by_name(group_name: str) -> int:
    return here().names[group_name].size()


def _group_or_default_group(group=None) -> ProcessGroup:
    return chosen(group)


def _get_pg_default_device(group=None):
    """Return the device of tensors that carry pickled objects."""
    return device_for(group)


_get_object_coll_device = _get_pg_default_device


def _object_to_tensor(obj, device=None, group=None):
    """Return (an object's bytes, their count) as tensors."""
    data = bytearray(pickle.dumps(obj))
    where = device or device_for(group)
    return frombuffer(data, dtype=uint8).to(where), made_tensor([len(data)], dtype=long, device=where)


def _tensor_to_object(tensor, tensor_size, group=None):
    """The object in the first ``tensor_size`` bytes of a tensor."""
    return pickle.loads(bytes(tensor[:int(tensor_size)].tolist()))


def _get_process_group_name(pg) -> str:
    return pg.group_name


def _get_process_group_store(pg):
    return pg._store


def _get_group_tag(pg) -> str:
    return f"user:{pg.group_name}"


def _find_pg_by_ranks_and_tag(tag: str, ranks):
    """Return the group of these ranks; None if there is none."""
    return next((group for group in here().groups if group.ranks == list(ranks)), None)


def _check_valid_timeout(timeout):
    checked_timeout(timeout)
