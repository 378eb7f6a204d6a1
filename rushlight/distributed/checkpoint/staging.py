"""Copies of states, which are written while training continues."""
from __future__ import annotations

import io
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import rushlight as torch

PLAIN = torch.Tensor, int, float, str, bytes, io.BytesIO, type(None)

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


def copied(value, known: dict | None = None):
    """A nested state with a copy of each tensor; ``known`` maps tensors to copies that are written over."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {key: copied(inner) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(copied, value))
    import copy
    return copy.deepcopy(value)


def check_types(value):
    """Raise ValueError for a value in a nested state that is neither a tensor nor a plain value."""
    if isinstance(value, (dict, list, tuple)):
        for inner in value.values() if isinstance(value, dict) else value:
            check_types(inner)
    elif not isinstance(value, PLAIN):
        raise ValueError(f"Unexpected value type {type(value)}: expected a tensor, number, string, bytes or None")


class AsyncStager:
    """Copies a state before ``async_save`` returns."""

    _synchronize_after_execute = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        return self._synchronize_after_execute

    def stage(self, state_dict):
        raise NotImplementedError(f"{type(self).__name__} must implement stage method")

    def synchronize_staging(self):
        """Waits until the copy is there."""

    def close(self):
        """Free cached memory."""


class BlockingAsyncStager(AsyncStager):
    """Copies at once.  ``cache_staged_state_dict`` keeps the memory of the copy for the next one; ``type_check``:
    ValueError for a state of other values than tensors, numbers, strings, bytes and None."""

    _synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False):
        self.cache_staged_state_dict, self.state_dict_cache = cache_staged_state_dict, None
        self.type_check = type_check

    def stage(self, state_dict):
        if self.type_check:
            check_types(state_dict)
        if not self.cache_staged_state_dict:
            return copied(state_dict)
        self.state_dict_cache = refreshed(self.state_dict_cache, state_dict)
        return self.state_dict_cache

    def copies_alone(self) -> bool:
        """True if ``stage`` makes a new copy and does nothing else."""
        does_more = self.cache_staged_state_dict or self.type_check
        return type(self).stage is BlockingAsyncStager.stage and not does_more

    def __getstate__(self):
        return {**vars(self), "state_dict_cache": None}

    def close(self):
        self.state_dict_cache = None


def ready(staged):
    """A copy, or the value of the Future of one."""
    return staged.result() if isinstance(staged, Future) else staged


def refreshed(copy, value):
    """Update a previous copy; return a new one if it does not fit."""
    if isinstance(value, torch.Tensor) and isinstance(copy, torch.Tensor) and type(copy) is type(
            value.detach()) and copy.size() == value.size() and copy.dtype == value.dtype:
        return copy.copy_(value.detach())
    if isinstance(value, Mapping) and isinstance(copy, dict) and copy.keys() == value.keys():
        return {key: refreshed(copy[key], inner) for key, inner in value.items()}
    return copied(value)


@dataclass
class StagingOptions:
    """Options of ``DefaultStager``'s copies.  Pinned or shared memory is useful with an accelerator, or another
    process."""

    use_pinned_memory: bool = False
    use_shared_memory: bool = False
    use_async_staging: bool = True
    use_non_blocking_copy: bool = False


class DefaultStager(AsyncStager):
    """Copies, by ``use_async_staging`` in a thread: parameters must not be written before ``synchronize_staging()``
    returns."""

    def __init__(self, config: StagingOptions = StagingOptions()):
        if config.use_pinned_memory or config.use_shared_memory:
            raise NotImplementedError("StagingOptions: memory is neither pinned nor shared between processes here")
        self.config, self.pool, self.future = config, None, None

    def stage(self, state_dict, **kwargs):
        if not self.config.use_async_staging:
            return copied(state_dict)
        self.pool = self.pool or ThreadPoolExecutor(1)
        self.future = self.pool.submit(copied, state_dict)
        return self.future

    def synchronize_staging(self):
        if self.future is not None:
            self.future.result()

    def close(self):
        if self.pool is not None:
            self.pool.shutdown()
            self.pool = None
