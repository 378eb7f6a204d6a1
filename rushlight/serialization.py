"""``save`` and ``load`` in PyTorch's zip format: files written here load there and the reverse.

An archive holds ``data.pkl`` (a pickle in which tensors name their storages) and one uncompressed entry for each storage.
"""
from __future__ import annotations

import collections
import io
import os
import pickle
import tempfile
import zipfile

import numpy as np

from .core.devices import device as Device, placed
from .core.dtypes import BY_NAME, dtype as Dtype
from .core.meta import Meta, Size
from .core.native import Tensor, wrap
from .core.native.memory import copy_bytes
from .core.tensor import empty
from .core.dtypes import NAMES
from .nn.parameter import Parameter

STORAGES = {name + "Storage": BY_NAME[key] for key, name in NAMES.items()}


class GlobalName:
    """A name that the pickle refers to without importing it."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self, *args):
        raise TypeError("a name in a file is not called while it is written")


class StorageReference:
    """One storage of the archive."""

    def __init__(self, key, dtype, nbytes):
        self.key, self.dtype, self.count = key, dtype, nbytes // dtype.itemsize


class Pickler(pickle._Pickler):
    """Writes tensors as references to storages, which it collects."""

    dispatch = dict(pickle._Pickler.dispatch)

    def __init__(self, file):
        super().__init__(file, protocol=2)
        self.storages, self.keys = {}, {}

    def save_global_name(self, obj):
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    dispatch[GlobalName] = save_global_name

    def persistent_id(self, obj):
        if isinstance(obj, StorageReference):
            return "storage", GlobalName("torch", NAMES[obj.dtype.name] + "Storage"), obj.key, "cpu", obj.count
        return None

    def reducer_override(self, obj):
        if isinstance(obj, Dtype):
            return GlobalName("torch", obj.name)
        if isinstance(obj, Device):
            return GlobalName("torch", "device"), (str(obj),)
        if type(obj) is Size:
            return GlobalName("torch", "Size"), (tuple(obj),)
        if not isinstance(obj, Tensor):
            return NotImplemented
        if obj.step is not None and not obj.is_leaf:
            obj = obj.detach()
        if isinstance(obj, Parameter):
            data = Tensor.detach(obj)
            return GlobalName("torch._utils", "_rebuild_parameter"), (data, bool(obj.needs_grad), collections.OrderedDict())
        return GlobalName("torch._utils", "_rebuild_tensor_v2"), (
            self.reference(obj), obj.offset, tuple(obj.shape), tuple(obj.stride()), bool(obj.needs_grad), collections.OrderedDict())

    def reference(self, tensor):
        storage = tensor.storage
        key = self.keys.setdefault(id(storage), str(len(self.keys)))
        self.storages[key] = storage
        return StorageReference(key, tensor.dtype, storage.nbytes)

    def save(self, obj, save_persistent_id=True):
        changed = NotImplemented if isinstance(obj, (GlobalName, StorageReference)) else self.reducer_override(obj)
        if changed is NotImplemented:
            return super().save(obj, save_persistent_id)
        if isinstance(changed, GlobalName):
            return self.save_global_name(changed)
        if id(obj) in self.memo:
            return self.write(self.get(self.memo[id(obj)][0]))
        return self.save_reduce(*changed, obj=obj)


def save(obj, f, pickle_module=None, pickle_protocol=2, _use_new_zipfile_serialization=True):
    """Writes an object with its tensors to a file (a path or a file object); a path is replaced only once all is written."""
    if hasattr(f, "write"):
        write_archive(obj, f, "archive")
        return
    path = os.fspath(f)
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as file:
            write_archive(obj, file, os.path.splitext(os.path.basename(path))[0] or "archive")
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_archive(obj, file, name):
    text = io.BytesIO()
    pickler = Pickler(text)
    pickler.dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{name}/data.pkl", text.getvalue())
        archive.writestr(f"{name}/byteorder", "little")
        for key, storage in pickler.storages.items():
            import ctypes
            archive.writestr(f"{name}/data/{key}", ctypes.string_at(storage.address, storage.nbytes) if storage.nbytes else b"")
        archive.writestr(f"{name}/version", "3\n")


def rebuild_tensor(storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None):
    """A tensor over a storage that was read."""
    memory, dtype = storage
    meta = Meta(tuple(size), tuple(stride), dtype, memory.device)
    if (offset + (meta.nbytes // dtype.itemsize)) * dtype.itemsize > memory.nbytes and meta.numel:
        raise RuntimeError(f"the file is corrupt: a tensor of shape {list(size)} does not fit into its storage of {memory.nbytes} bytes")
    tensor = wrap(memory.storage, offset, meta, meta.itemsize)
    return tensor.requires_grad_() if requires_grad else tensor


def rebuild_parameter(data, requires_grad=True, hooks=None):
    return Parameter(data, requires_grad)


ALLOWED = {("collections", "OrderedDict"): collections.OrderedDict, ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
           ("torch._utils", "_rebuild_parameter"): rebuild_parameter, ("torch", "Size"): Size, ("torch", "device"): Device, ("torch.nn.parameter", "Parameter"): Parameter,
           **{("torch", name): dtype for name, dtype in STORAGES.items()}, **{("torch", name): dtype for name, dtype in BY_NAME.items()}}


class Unpickler(pickle.Unpickler):
    """Reads the pickle of an archive; only tensors and plain containers unless everything is allowed."""

    def __init__(self, file, storages, weights_only):
        super().__init__(file, encoding="utf-8")
        self.storages, self.weights_only = storages, weights_only

    def find_class(self, module, name):
        found = ALLOWED.get((module, name))
        if found is not None:
            return found
        if self.weights_only:
            raise pickle.UnpicklingError(f"Weights only load failed: the file refers to {module}.{name}, which could run any code. If you trust its source, "
                                         "load it with weights_only=False.")
        if module == "torch" or module.startswith("torch."):
            module = "rushlight" + module[5:]
        return super().find_class(module, name)

    def persistent_load(self, saved):
        _, dtype, key, _, _ = saved
        return self.storages(key), dtype


def load(f, map_location=None, pickle_module=None, *, weights_only=True, mmap=None, **pickle_load_args):
    """Reads what ``save`` wrote.  RuntimeError for a file that is no such archive or is damaged."""
    if not hasattr(f, "read"):
        with open(f, "rb") as file:
            return load(file, map_location, weights_only=weights_only)
    where = placed(map_location) if isinstance(map_location, (str, Device)) else placed("cpu")
    try:
        archive = zipfile.ZipFile(f)
        names = archive.namelist()
        pickled = next(n for n in names if n.endswith("/data.pkl"))
        text = archive.read(pickled)
    except (zipfile.BadZipFile, StopIteration, EOFError, OSError) as error:
        raise RuntimeError(f"PytorchStreamReader failed reading zip archive: not a checkpoint, or a damaged one ({error})") from None
    prefix, known = pickled[: -len("data.pkl")], {}

    def storage(key):
        if key not in known:
            try:
                data = archive.read(f"{prefix}data/{key}")
            except (KeyError, zipfile.BadZipFile, EOFError) as error:
                raise RuntimeError(f"PytorchStreamReader failed reading file data/{key}: {error}") from None
            memory = empty((len(data),), BY_NAME["uint8"], device=where)
            if data and where.type != "meta":
                copy_bytes(memory.storage.address, np.frombuffer(data, np.uint8).ctypes.data, len(data))
            known[key] = memory
        return known[key]

    return Unpickler(io.BytesIO(text), storage, weights_only).load()
