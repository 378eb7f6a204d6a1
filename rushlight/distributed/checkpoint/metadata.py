"""Metadata of a checkpoint: its tensors, their chunks, and the file of each chunk."""
from __future__ import annotations

import enum
import os
from dataclasses import dataclass, field
from typing import Any

import rushlight as torch

__all__ = ["ChunkStorageMetadata", "TensorStorageMetadata", "BytesStorageMetadata", "Metadata", "MetadataIndex",
           "TensorProperties", "StorageMeta"]


@dataclass
class ChunkStorageMetadata:
    """A box of a tensor: its offsets and sizes, in elements."""

    offsets: torch.Size
    sizes: torch.Size


class _MEM_FORMAT_ENCODING(enum.Enum):
    """Memory formats as files name them."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


def encodings() -> dict:
    """Return {memory format: its encoding in a file}."""
    return {torch.contiguous_format: _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT,
            torch.channels_last: _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST,
            torch.preserve_format: _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT}


@dataclass
class TensorProperties:
    """Properties of a tensor other than its size."""

    dtype: Any = field(default_factory=torch.get_default_dtype)
    layout: Any = torch.strided
    requires_grad: bool = False
    memory_format: Any = torch.contiguous_format
    pin_memory: bool = False

    def __getstate__(self):
        return self.dtype, self.layout, self.requires_grad, encodings()[self.memory_format], self.pin_memory

    def __setstate__(self, state):
        self.dtype, self.layout, self.requires_grad, encoded, self.pin_memory = state
        self.memory_format = {code: known for known, code in encodings().items()}[encoded]

    @staticmethod
    def create_from_tensor(tensor) -> TensorProperties:
        return TensorProperties(tensor.dtype, tensor.layout, bool(tensor.requires_grad), torch.contiguous_format,
                                tensor.is_pinned())


@dataclass
class TensorStorageMetadata:
    """A tensor, and the chunks in which it is stored."""

    properties: TensorProperties
    size: torch.Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """A value that is not a tensor."""


STORAGE_TYPES = TensorStorageMetadata | BytesStorageMetadata
STATE_DICT_TYPE = dict[str, Any]


@dataclass
class StorageMeta:
    """Identifiers of a checkpoint, and of the save and load that made it."""

    checkpoint_id: str | os.PathLike | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """All that a reader needs.  ``planner_data``: flat name -> path in the nested state; ``storage_data``:
    MetadataIndex -> storage location."""

    state_dict_metadata: dict[str, STORAGE_TYPES]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """A tensor's chunk by its offset, or another value by its name.  ``index``: a hint, the chunk's index among the
    chunks.

    >>> MetadataIndex("weight", [0, 2], index=1) == MetadataIndex("weight", [0, 2])
    True
    """

    fqn: str
    offset: torch.Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn, offset=None, index=None):
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "offset", None if offset is None else torch.Size(offset))
