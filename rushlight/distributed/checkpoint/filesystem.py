"""Checkpoints in a directory: chunks in ``.distcp`` files, ``.metadata`` last.

Files are written without a name and named when they are complete.  A checkpoint over an older one uses names that the
older one does not use, so the older one stays complete until ``.metadata`` is replaced atomically; then its files are
removed.
"""
from __future__ import annotations

import abc
import contextlib
import enum
import io
import json
import os
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import rushlight as torch

from ..._src.core.errors import CorruptFileError
from ..._src.core.files import replaced
from ...futures import Future
from ...serialization import write_archive
from ...utils import safetensors
from . import metadata_file
from .default_planner import narrowed
from .metadata import Metadata, StorageMeta
from .places import StorageInfo as _StorageInfo, StoragePrefix as _StoragePrefix
from .planner import LoadItemType, LoadPlan, SavePlan, WriteItemType
from .staging import BlockingAsyncStager
from .storage import StorageReader, StorageWriter, WriteResult

__all__ = ["FileSystemWriter", "FileSystemReader", "FileSystem", "FileSystemBase", "SerializationFormat"]
CURRENT_DCP_VERSION, DEFAULT_SUFFIX, METADATA = "1.0.0", ".distcp", ".metadata"
CUSTOM_METADATA_KEY, DCP_VERSION_KEY, FORMAT_KEY, FORMAT_VALUE, HF_DCP_VERSION = ("DCP_SHARDING_INFO", "DCP_VERSION",
                                                                                  "format", "pt", 1.0)
WRITTEN = re.compile(r"__\d+_.*\.(distcp|safetensors)")  # names of the files written here


class SerializationFormat(enum.Enum):
    """The format of chunks: each as ``torch.save`` writes it, or those of a file in the safetensors format."""

    TORCH_SAVE, SAFETENSORS = "torch_save", "safetensors"


class FileSystemBase(abc.ABC):
    """The interface to the storage of files."""

    @abc.abstractmethod
    def create_stream(self, path, mode: str): ...

    @abc.abstractmethod
    def concat_path(self, path, suffix: str): ...

    @abc.abstractmethod
    def rename(self, path, new_path) -> None: ...

    @abc.abstractmethod
    def init_path(self, path): ...

    @abc.abstractmethod
    def mkdir(self, path) -> None: ...

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool: ...

    @abc.abstractmethod
    def exists(self, path) -> bool: ...

    @abc.abstractmethod
    def rm_file(self, path) -> None: ...


class FileSystem(FileSystemBase):
    """Files of this host.  A file that is written gets its name when it is complete."""

    def create_stream(self, path, mode: str):
        return replaced(path) if mode == "wb" else open(path, mode)

    def concat_path(self, path, suffix: str):
        return Path(path) / suffix

    def init_path(self, path):
        return path if isinstance(path, Path) else Path(path)

    def rename(self, path, new_path):
        os.replace(path, new_path)

    def mkdir(self, path):
        os.makedirs(path, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool:
        if "://" in str(checkpoint_id):
            return False
        return any(parent.exists() and os.access(parent, os.W_OK)
                   for parent in Path(checkpoint_id).absolute().parents) or Path(checkpoint_id).exists()

    def exists(self, path) -> bool:
        return os.path.exists(path)

    def rm_file(self, path):
        os.unlink(path)

    def ls(self, path) -> list[str]:
        return [str(Path(path) / name) for name in os.listdir(path)]


class Shifted(io.RawIOBase):
    """The rest of a stream, as a stream that begins here."""

    def __init__(self, stream):
        super().__init__()
        self.stream, self.start = stream, stream.tell()

    def writable(self):
        return True

    def seekable(self):
        return True

    def write(self, data):
        return self.stream.write(data)

    def tell(self):
        return self.stream.tell() - self.start

    def seek(self, offset, whence=os.SEEK_SET):
        return self.stream.seek(offset + self.start if whence == os.SEEK_SET else offset, whence) - self.start

    def flush(self):
        self.stream.flush()


def to_disk(stream):
    """Flush a stream to disk."""
    stream.flush()
    if hasattr(stream, "fileno"):
        os.fsync(stream.fileno())


def settle(folder):
    """Flush the entries of a directory to disk."""
    with contextlib.suppress(OSError):  # of systems that do not open directories
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def shares(items, count: int) -> list[list]:
    """Split items into ``count`` lists of about the same number of bytes."""
    lists, loads = [[] for _ in range(count)], [0] * count
    for item in sorted(items, key=lambda item: -(item.tensor_storage_size() or 0)):
        least = loads.index(min(loads))
        lists[least].append(item)
        loads[least] += item.tensor_storage_size() or 1
    return [items for items in lists if items]


def compact(tensor):
    """Return a tensor whose storage holds no other elements."""
    tensor = tensor.detach().cpu()
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()


class FileSystemWriter(BlockingAsyncStager, StorageWriter):
    """Writes checkpoints into the directory ``path``.

    ``single_file_per_rank``: one file for each process (and each of ``thread_count`` threads) instead of one for each
      chunk; ``sync_files``: files are flushed to disk before they get their names; ``overwrite``: an older checkpoint
      in the directory is replaced, with a UserWarning; else RuntimeError.

    >>> import rushlight as torch, tempfile
    >>> import rushlight.distributed.checkpoint as dcp
    >>> folder, state = tempfile.mkdtemp(), {"w": torch.ones(2)}
    >>> _ = dcp.save(state, storage_writer=FileSystemWriter(folder), no_dist=True)
    >>> dcp.load(into := {"w": torch.zeros(2)}, storage_reader=FileSystemReader(folder), no_dist=True)
    >>> into
    {'w': tensor([1., 1.])}
    """

    def __init__(self, path, single_file_per_rank=True, sync_files=True, thread_count=1,
                 per_thread_copy_ahead=10_000_000, cache_staged_state_dict=False, overwrite=True,
                 _extensions=None, serialization_format=SerializationFormat.TORCH_SAVE):
        BlockingAsyncStager.__init__(self, cache_staged_state_dict)
        if _extensions:
            raise NotImplementedError("FileSystemWriter: _extensions, which transform streams, are not here")
        self.fs = FileSystem()
        self.path = self.fs.init_path(path)
        self.single_file_per_rank, self.sync_files, self.thread_count, self.overwrite = (single_file_per_rank,
                                                                                         sync_files, max(
                                                                                             1, thread_count),
                                                                                         overwrite)
        self.per_thread_copy_ahead, self.serialization_format = per_thread_copy_ahead, serialization_format
        self.reset()

    def reset(self, checkpoint_id=None):
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    @property
    def checkpoint_id(self):
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool:
        return FileSystem.validate_checkpoint_id(checkpoint_id)

    def storage_meta(self):
        return StorageMeta(checkpoint_id=os.fspath(self.checkpoint_id), save_id=self.save_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args, **kwargs):
        self.rank = kwargs.get("rank")

    def metadata_path(self):
        return self.fs.concat_path(self.path, METADATA)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self.fs.mkdir(self.path)
        if self.fs.exists(self.metadata_path()):
            if not self.overwrite:
                raise RuntimeError(f"Checkpoint already exists and {self.overwrite=}.")
            import warnings
            warnings.warn(
                f"Detected an existing checkpoint in {self.path}, overwriting since {self.overwrite=}. Past version "
                "2.5 of PyTorch, `overwrite` will default to False.", stacklevel=2)
        return plan

    def prepare_global_plan(self, plans):
        import dataclasses
        again = f"{self.save_id[:8]}_" if self.fs.exists(self.metadata_path()) else ""
        return [dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{k}_{again}"))
                for k, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner):
        """A Future, done already, of the results."""
        prefix, form = plan.storage_data.prefix, self.serialization_format
        groups = shares(plan.items, self.thread_count) if self.single_file_per_rank else [[item] for item in plan.items]
        names = [f"{prefix}{k}{DEFAULT_SUFFIX if form is SerializationFormat.TORCH_SAVE else '.safetensors'}"
                 for k in range(len(groups))]
        return self.write_files(zip(names, groups), planner)

    def write_files(self, files, planner):
        def write(file):
            return self.write_file(*file, planner)
        files, done = list(files), Future()
        if self.thread_count > 1 and len(files) > 1:
            with ThreadPoolExecutor(min(self.thread_count, len(files))) as pool:
                found = list(pool.map(write, files))
        else:
            found = [write(file) for file in files]
        done.set_result([result for results in found for result in results])
        return done

    def write_file(self, name, items, planner) -> list[WriteResult]:
        """Writes one file; bytes come before tensors, as in PyTorch's."""
        write = self.write_tensors if self.serialization_format is SerializationFormat.SAFETENSORS else self.write_items
        with self.fs.create_stream(self.fs.concat_path(self.path, name), "wb") as stream:
            results = write(name, sorted(items, key=lambda item: item.type is not WriteItemType.BYTE_IO), planner,
                            stream)
            if self.sync_files:
                to_disk(stream)
        return results

    def write_items(self, name, items, planner, stream) -> list[WriteResult]:
        results = []
        for item in items:
            data, start = planner.resolve_data(item), stream.tell()
            if isinstance(data, io.BytesIO):
                stream.write(data.getbuffer())
            else:
                write_archive(compact(data), Shifted(stream), "archive")
            stream.seek(0, os.SEEK_END)
            length = stream.tell() - start
            results.append(WriteResult(item.index, length, _StorageInfo(name, start, length)))
        return results

    def write_tensors(self, name, items, planner, stream) -> list[WriteResult]:
        """Write all tensors as one safetensors file.  TypeError for other values, ValueError for two chunks of one
        tensor."""
        tensors, offsets = {}, {}
        for item in items:
            if item.type is WriteItemType.BYTE_IO:
                raise TypeError(f"{item.index.fqn} is no tensor: the safetensors format holds tensors alone")
            if item.index.fqn in tensors:
                raise ValueError(
                    f"two chunks of {item.index.fqn} in one file: the safetensors format has one tensor for each name")
            tensors[item.index.fqn] = compact(planner.resolve_data(item))
            offsets[item.index.fqn] = {"saved_offsets": list(item.tensor_data.chunk.offsets)}
        known = {CUSTOM_METADATA_KEY: json.dumps(offsets), DCP_VERSION_KEY: str(HF_DCP_VERSION),
                 FORMAT_KEY: FORMAT_VALUE}
        safetensors.write(tensors, stream, known)
        return [WriteResult(item.index, tensors[item.index.fqn].nbytes,
                            _StorageInfo(name, 0, tensors[item.index.fqn].nbytes)) for item in items]

    def finish(self, metadata: Metadata, results):
        """Write ``.metadata``, which makes the directory hold this checkpoint, and remove files that it does not
        name."""
        metadata.storage_data = {result.index: result.storage_data for one in results for result in one}
        metadata.storage_meta, metadata.version = self.storage_meta(), CURRENT_DCP_VERSION
        if self.sync_files and isinstance(self.fs, FileSystem):
            settle(self.path)
        with self.fs.create_stream(self.metadata_path(), "wb") as stream:
            stream.write(metadata_file.dumped(metadata))
            if self.sync_files:
                to_disk(stream)
        if isinstance(self.fs, FileSystem):
            if self.sync_files:
                settle(self.path)
            named = {info.relative_path for info in metadata.storage_data.values()}
            for path in map(Path, self.fs.ls(self.path)):
                if WRITTEN.fullmatch(path.name) and path.name not in named:
                    self.fs.rm_file(path)


class FileSystemReader(StorageReader):
    """Reads checkpoints from the directory ``path``: those written here, and PyTorch's.  Reading never executes code
    from a file."""

    def __init__(self, path, _extension_registry=None):
        if _extension_registry is not None:
            raise NotImplementedError("FileSystemReader: extensions, which transform streams, are not here")
        self.fs = FileSystem()
        self.path = self.fs.init_path(path)
        self.reset()

    def reset(self, checkpoint_id=None):
        self.storage_data = {}
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    @property
    def checkpoint_id(self):
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool:
        return FileSystem.validate_checkpoint_id(checkpoint_id)

    def read_metadata(self, *args, **kwargs) -> Metadata:
        """Return the checkpoint's metadata.  FileNotFoundError if there is none; errors as of
        ``metadata_file.loaded``."""
        rank = kwargs.get("rank")
        with self.fs.create_stream(self.fs.concat_path(self.path, METADATA if rank is None else f"__{rank}{METADATA}"),
                                   "rb") as stream:
            found = metadata_file.loaded(stream.read())
        found.storage_meta = found.storage_meta or StorageMeta()
        found.storage_meta.load_id = self.load_id
        return found

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args, **kwargs):
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def place_of(self, item) -> _StorageInfo:
        info = self.storage_data.get(item.storage_index)
        if not isinstance(info, _StorageInfo):
            raise CorruptFileError(f"the checkpoint does not say where {item.storage_index} lies",
                                   "a place for every chunk", "save the checkpoint again")
        return info

    def read_data(self, plan: LoadPlan, planner):
        files: dict = {}
        for item in plan.items:
            files.setdefault(self.place_of(item).relative_path, {}).setdefault(item.storage_index, []).append(item)
        for name, chunks in files.items():
            path = self.fs.concat_path(self.path, name)
            if name.endswith(".safetensors"):
                tensors = safetensors.load_file(path)
                for index, items in chunks.items():
                    self.fill(items, tensors[index.fqn], planner)
                continue
            with self.fs.create_stream(path, "rb") as stream:
                for index, items in chunks.items():
                    self.read_chunk(stream, self.place_of(items[0]), items, planner)
        done = Future()
        done.set_result(None)
        return done

    def read_chunk(self, stream, info: _StorageInfo, items, planner):
        """Read one range of a file into the planner's targets."""
        if info.transform_descriptors:
            raise NotImplementedError(
                f"{info.relative_path} was transformed by {info.transform_descriptors} when it was written; such "
                "extensions are not here")
        stream.seek(info.offset)
        text = stream.read(info.length)
        if len(text) != info.length:
            raise CorruptFileError(
                f"{info.relative_path} ends {info.length - len(text)} bytes before {items[0].storage_index} does",
                "a whole file", "save the checkpoint again")
        for item in items:
            if item.type is LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(text))
        tensors = [item for item in items if item.type is LoadItemType.TENSOR]
        if tensors:
            self.fill(tensors, torch.load(io.BytesIO(text), map_location="cpu", weights_only=True), planner)

    def fill(self, items, stored, planner):
        """Copies boxes of a chunk into the tensors that are loaded."""
        for item in items:
            source, target = narrowed(stored, item.storage_offsets, item.lengths), planner.resolve_tensor(item).detach()
            if target.size() != source.size():
                raise CorruptFileError(f"{item.storage_index} is stored with the size {list(source.size())}",
                                       f"the size {list(target.size())}", "save the checkpoint again")
            target.copy_(source)
            planner.commit_tensor(item, target)


