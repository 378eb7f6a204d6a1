"""Checkpoints as safetensors files, as Hugging Face's tools read and write them."""
from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import rushlight as torch

from ..._src.core.errors import CorruptFileError
from ...utils import safetensors
from .default_planner import narrowed
from .filesystem import (CUSTOM_METADATA_KEY, FORMAT_KEY, FORMAT_VALUE, FileSystemReader, FileSystemWriter,
                         SerializationFormat)
from .metadata import (ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties,
                       TensorStorageMetadata)
from .places import StorageInfo

__all__ = ["HuggingFaceStorageWriter", "HuggingFaceStorageReader"]
INDEX, SHARDED = "model.safetensors.index.json", "sharded"


def file_name(index: int, count: int, shard: int | None = None) -> str:
    """
    >>> file_name(1, 2), file_name(1, 1, 3)
    ('model-00001-of-00002.safetensors', 'shard-00003-model-00001-of-00001.safetensors')
    """
    name = f"model-{index:05}-of-{count:05}.safetensors"
    return name if shard is None else f"shard-{shard:05}-{name}"


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors as safetensors files: full tensors by one process, or with ``save_distributed`` each process its
    chunks, which ``enable_consolidation`` combines.

    ``fqn_to_index_mapping``: name -> number of its file, from 1.  Every file is replaced once it is complete; a
      checkpoint of several files is not replaced atomically.
    """

    def __init__(self, path, fqn_to_index_mapping=None, thread_count=1, save_distributed=False,
                 enable_consolidation=False, thread_count_consolidation=1):
        super().__init__(path, thread_count=thread_count, serialization_format=SerializationFormat.SAFETENSORS)
        self.fqn_to_index_mapping, self.save_distributed, self.enable_consolidation = (fqn_to_index_mapping,
                                                                                       save_distributed,
                                                                                       enable_consolidation)
        self.thread_count_consolidation, self.consolidated = thread_count_consolidation, self.path
        if enable_consolidation:
            self.path = self.fs.concat_path(self.path, SHARDED)

    def metadata_path(self):
        return self.fs.concat_path(self.path, INDEX)

    def prepare_local_plan(self, plan):
        self.fs.mkdir(self.path)
        return plan

    def prepare_global_plan(self, plans):
        return [dataclasses.replace(plan, storage_data=k if self.save_distributed else None)
                for k, plan in enumerate(plans, 1)]

    def write_data(self, plan, planner):
        mapping = self.fqn_to_index_mapping or {}
        groups: dict = {}
        for item in plan.items:
            groups.setdefault(mapping.get(item.index.fqn, 1), []).append(item)
        count = max(mapping.values(), default=1)
        return self.write_files(((file_name(k, count, plan.storage_data), items) for k, items in groups.items()),
                                planner)

    def finish(self, metadata, results):
        if self.save_distributed:
            if self.enable_consolidation:
                consolidate(self.path, self.consolidated, self.fqn_to_index_mapping or {})
            return
        found = [result for one in results for result in one]
        write_index(self.path, {r.index.fqn: r.storage_data.relative_path for r in found},
                    sum(r.size_in_bytes for r in found))


def write_index(path, weights: dict, size: int):
    """Writes which file has which tensor."""
    from ..._src.core.files import replaced
    with replaced(Path(path) / INDEX) as file:
        file.write(json.dumps({"metadata": {"total_size": size}, "weight_map": weights}, indent=2).encode())


def consolidate(source, target, mapping: dict):
    """Combine the chunks of files in one directory into full tensors in another."""
    reader = HuggingFaceStorageReader(source)
    metadata = reader.read_metadata()
    count, files, total = max(mapping.values(), default=1), {}, 0
    for name, stored in metadata.state_dict_metadata.items():
        whole = torch.empty(stored.size, dtype=stored.properties.dtype)
        for chunk in stored.chunks:
            place = metadata.storage_data[MetadataIndex(name, chunk.offsets)]
            narrowed(whole, chunk.offsets,
                     chunk.sizes).copy_(safetensors.load_file(Path(source) / place.relative_path)[name])
        files.setdefault(file_name(mapping.get(name, 1), count), {})[name] = whole
        total += whole.nbytes
    for name, tensors in files.items():
        safetensors.save_file(tensors, Path(target) / name, {FORMAT_KEY: FORMAT_VALUE})
    write_index(target, {name: file for file, tensors in files.items() for name in tensors}, total)


class HuggingFaceStorageReader(FileSystemReader):
    """Reads safetensors files of a directory: full tensors, and chunks with their offsets."""

    def __init__(self, path, thread_count: int = 1):
        super().__init__(path)
        self.thread_count = thread_count

    def read_metadata(self, *args, **kwargs) -> Metadata:
        known, places = {}, {}
        for path in sorted(map(Path, self.fs.ls(self.path))):
            if path.suffix == ".safetensors":
                self.describe(path, known, places)
        for name, stored in known.items():
            stored.size = torch.Size([max(c.offsets[d] + c.sizes[d] for c in stored.chunks)
                                      for d in range(len(stored.size))])
        return Metadata(known, storage_data=places, storage_meta=StorageMeta(load_id=self.load_id))

    def describe(self, path, known, places):
        """Adds the tensors of one file."""
        tensors = safetensors.load_file(path)
        offsets = offsets_in(path)
        for name, tensor in tensors.items():
            start = torch.Size(offsets.get(name, {}).get("saved_offsets", [0] * tensor.dim()))
            if len(start) != tensor.dim():
                raise CorruptFileError(f"{path}: {name!r} has offsets {list(start)} and {tensor.dim()} dimensions",
                                       "an offset for each dimension", "save the checkpoint again")
            stored = known.setdefault(name, TensorStorageMetadata(TensorProperties(tensor.dtype), tensor.size(), []))
            stored.chunks.append(ChunkStorageMetadata(start, tensor.size()))
            places[MetadataIndex(name, start)] = StorageInfo(path.name, 0, tensor.nbytes)


def offsets_in(path) -> dict:
    """Name -> {"saved_offsets": ...} of a file's chunks."""
    text = safetensors.metadata_of(path).get(CUSTOM_METADATA_KEY)
    if text is None:
        return {}
    try:
        found = json.loads(text)
        assert isinstance(found, dict) and all(isinstance(v, dict)
                                               and all(type(n) is int and n >= 0 for n in v["saved_offsets"])
                                               for v in found.values())
    except (ValueError, KeyError, TypeError, AssertionError, RecursionError) as error:
        raise CorruptFileError(f"{path}: its {CUSTOM_METADATA_KEY} are damaged: {error}", "offsets of chunks",
                               "save the checkpoint again") from None
    return found
