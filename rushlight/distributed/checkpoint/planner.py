"""Plans of each process's reads and writes, and the interfaces of planners."""
from __future__ import annotations

import abc
import enum
import io
import math
from dataclasses import dataclass
from typing import Any

import rushlight as torch

from .metadata import ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties

__all__ = ["WriteItemType", "LoadItemType", "BytesIOWriteData", "TensorWriteData", "WriteItem", "ReadItem", "SavePlan",
           "LoadPlan", "SavePlanner", "LoadPlanner"]


class WriteItemType(enum.Enum):
    TENSOR, SHARD, BYTE_IO = 1, 2, 3


class LoadItemType(enum.Enum):
    TENSOR, BYTE_IO = 1, 2


@dataclass(frozen=True)
class BytesIOWriteData:
    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """A chunk, and its full tensor's properties and size."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: torch.Size


@dataclass(frozen=True)
class WriteItem:
    """One object or chunk to write."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """Return the bytes of the chunk; None for values that are not tensors."""
        if self.tensor_data is None:
            return None
        return math.prod(self.tensor_data.chunk.sizes) * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """A box of a stored chunk, and its position in the tensor that is loaded."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: torch.Size
    storage_index: MetadataIndex
    storage_offsets: torch.Size
    lengths: torch.Size


@dataclass(frozen=True)
class SavePlan:
    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """Plans writes: ``set_up_planner`` in every process, then ``create_local_plan``, ``create_global_plan`` in one, and
    ``finish_plan`` and ``resolve_data`` in every process."""

    @abc.abstractmethod
    def set_up_planner(self, state_dict, storage_meta: StorageMeta | None = None,
                       is_coordinator: bool = False) -> None: ...

    @abc.abstractmethod
    def create_local_plan(self) -> SavePlan: ...

    @abc.abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]: ...

    @abc.abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan: ...

    @abc.abstractmethod
    def resolve_data(self, write_item: WriteItem) -> torch.Tensor | io.BytesIO: ...


class LoadPlanner(abc.ABC):
    """Plans reads and their destinations."""

    @abc.abstractmethod
    def set_up_planner(self, state_dict, metadata: Metadata | None = None, is_coordinator: bool = False) -> None: ...

    @abc.abstractmethod
    def create_local_plan(self) -> LoadPlan: ...

    @abc.abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]: ...

    @abc.abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan: ...

    @abc.abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None: ...

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        raise NotImplementedError("LoadPlanner.resolve_bytes is not implemented")

    @abc.abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> torch.Tensor: ...

    @abc.abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: torch.Tensor) -> None: ...
