"""The interfaces of storage writers and readers."""
from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

from .metadata import MetadataIndex

__all__ = ["WriteResult", "StorageWriter", "StorageReader"]


@dataclass(frozen=True)
class WriteResult:
    """The result of one write: ``storage_data`` is the storage location."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Stores the items of plans: ``finish`` is called in one process, once all have written."""

    @abc.abstractmethod
    def reset(self, checkpoint_id=None) -> None: ...

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args, **kwargs) -> None: ...

    @abc.abstractmethod
    def prepare_local_plan(self, plan): ...

    @abc.abstractmethod
    def prepare_global_plan(self, plans): ...

    @abc.abstractmethod
    def write_data(self, plan, planner):
        """A Future of a list of WriteResults."""

    @abc.abstractmethod
    def finish(self, metadata, results) -> None: ...

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool: ...

    def storage_meta(self):
        return None


class StorageReader(abc.ABC):
    """Reads the items of plans."""

    @abc.abstractmethod
    def reset(self, checkpoint_id=None) -> None: ...

    @abc.abstractmethod
    def read_metadata(self, *args, **kwargs): ...

    @abc.abstractmethod
    def set_up_storage_reader(self, metadata, is_coordinator: bool, *args, **kwargs) -> None: ...

    @abc.abstractmethod
    def prepare_local_plan(self, plan): ...

    @abc.abstractmethod
    def prepare_global_plan(self, plans): ...

    @abc.abstractmethod
    def read_data(self, plan, planner):
        """Return a Future that is done when the planner's targets have all data."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool: ...
