"""The file ``.metadata``: a pickle of ``Metadata`` with PyTorch's names.  Reading it executes no code: an allow list
restricts the classes that it may make."""
from __future__ import annotations

import io
import pathlib
import pickle

import rushlight as torch

from ..._src.core.errors import CorruptFileError
from ..._src.core.meta import Size
from ..._src.restored import layout_named
from ..._src.weights import WeightsUnpickler, refuse, shallow
from ...serialization import BY_NAME, GlobalName, Pickler
from . import metadata as kinds
from .places import StorageInfo

METADATA, FILESYSTEM = "torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem"
CLASSES = {(METADATA, name): getattr(kinds, name)
           for name in (*kinds.__all__, "_MEM_FORMAT_ENCODING")} | {(FILESYSTEM, "_StorageInfo"): StorageInfo}
SHARDED = "torch.distributed._shard.sharded_tensor.metadata"  # module of tensor descriptions in older checkpoints
OLDER = {(SHARDED, "TensorProperties"): kinds.TensorProperties,
         (SHARDED, "MEM_FORMAT_ENCODING"): kinds._MEM_FORMAT_ENCODING}
NAMES = {kind: place for place, kind in CLASSES.items()}
PATHS = {(module, name): kind for module in ("pathlib", "pathlib._local") for name, kind in (
    ("PosixPath", pathlib.PurePosixPath), ("PurePosixPath", pathlib.PurePosixPath),
    ("WindowsPath", pathlib.PureWindowsPath), ("PureWindowsPath", pathlib.PureWindowsPath))}
KNOWN = {**CLASSES, **OLDER, **PATHS, ("torch", "Size"): Size, ("torch.serialization", "_get_layout"): layout_named,
         **{("torch", name): found for name, found in BY_NAME.items()}}
FIELDS = {kind: frozenset(getattr(kind, "__dataclass_fields__", ())) for kind in CLASSES.values()}


class MetadataPickler(Pickler):
    """Writes Rushlight's classes under PyTorch's names."""

    dispatch = dict(Pickler.dispatch)

    def name_in_files(self, obj):
        """Return None: metadata hold the classes of NAMES alone."""

    def save_class(self, obj):
        if obj not in NAMES:
            raise TypeError(
                f"a checkpoint's metadata hold {obj.__module__}.{obj.__qualname__}, which readers do not know")
        self.save_global_name(GlobalName(*NAMES[obj]))

    dispatch[type] = save_class

    def save_kind(self, obj):
        return self.save_class(obj)

    dispatch[type(kinds._MEM_FORMAT_ENCODING)] = save_kind


class MetadataUnpickler(WeightsUnpickler):
    """Makes instances of the classes in KNOWN, and sets their fields: no other class is made or called."""

    dispatch = dict(WeightsUnpickler.dispatch)

    def load_newobj(self):
        if self.stack[-2] not in FIELDS or self.stack[-1] != ():
            refuse(f"Can only create new object for classes of metadata but got {self.stack[-2]!r}")
        self.stack.pop()
        self.append(object.__new__(self.stack.pop()))

    def load_reduce(self):
        found, arguments = self.stack[-2:]
        shallow(arguments)
        if type(found) is type and found in FIELDS:
            refuse(f"{found.__name__} is called")
        super().load_reduce()

    def load_build(self):
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, kinds.TensorProperties) and type(state) is tuple and len(state) == 5:
            return target.__setstate__(state)
        if type(state) is not dict or not FIELDS.get(type(target), frozenset()).issuperset(state):
            refuse(f"the state of {type(target).__name__} is no dict of its fields")
        vars(target).update(state)

    dispatch[pickle.NEWOBJ[0]], dispatch[pickle.REDUCE[0]], dispatch[
        pickle.BUILD[0]] = load_newobj, load_reduce, load_build


def no_storage(*_):
    refuse("metadata hold no tensors")


def dumped(metadata: kinds.Metadata) -> bytes:
    """The file's content."""
    text = io.BytesIO()
    MetadataPickler(text, protocol=4).dump(metadata)
    return text.getvalue()


def loaded(text: bytes) -> kinds.Metadata:
    """Return metadata from a file's content.  CorruptFileError (a RuntimeError) for invalid content,
    pickle.UnpicklingError for a pickle that refers to more than metadata need."""
    try:
        found = MetadataUnpickler(io.BytesIO(text), no_storage, KNOWN).load()
        problem = problem_of(found)
    except (pickle.UnpicklingError, MemoryError):
        raise
    except Exception as error:  # nothing but the file's own bytes can have caused it
        raise CorruptFileError(f".metadata is damaged: {type(error).__name__}: {error}", "the metadata of a checkpoint",
                               "save the checkpoint again") from error
    if problem:
        raise CorruptFileError(f".metadata is damaged: {problem}", "the metadata of a checkpoint",
                               "save the checkpoint again")
    return found


def problem_of(found) -> str | None:
    """Return a description of what is invalid in metadata, or None."""
    if not isinstance(found, kinds.Metadata) or not isinstance(getattr(found, "state_dict_metadata", None), dict):
        return "it holds no Metadata"
    for field in ("planner_data", "storage_data", "storage_meta", "version"):
        vars(found).setdefault(field, None)
    for name, stored in found.state_dict_metadata.items():
        if isinstance(stored, kinds.BytesStorageMetadata):
            continue
        if not isinstance(stored, kinds.TensorStorageMetadata) or not isinstance(stored.properties.dtype, torch.dtype):
            return f"{name!r} is described by {type(stored).__name__}"
        rank = len(stored.size)
        if not sizes(stored.size) or not all(isinstance(c, kinds.ChunkStorageMetadata) and sizes(c.offsets)
                                             and sizes(c.sizes) and len(c.offsets) == len(c.sizes) == rank
                                             for c in stored.chunks):
            return f"the chunks of {name!r} have no sizes"
    for index, info in (found.storage_data or {}).items() if isinstance(found.storage_data, (dict, type(None))) else ():
        if isinstance(info, StorageInfo) and not (isinstance(index, kinds.MetadataIndex) and info.inside()):
            return f"{index!r} has the invalid location {info!r}"
    return None


def sizes(value) -> bool:
    return isinstance(value, tuple) and all(type(n) is int and n >= 0 for n in value)
