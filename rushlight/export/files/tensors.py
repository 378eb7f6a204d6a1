"""Tensors in archives of programs: a table of their dtypes, sizes, strides and offsets, and the bytes of their
storages, which several may share."""
from __future__ import annotations

import json

from ..._src.core.convert import (UntypedStorage, channels_last, channels_last_3d, contiguous_format, jagged,
                                  preserve_format, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided)
from ..._src.core.devices import device as Device
from ..._src.core.dtypes import BY_NAME, uint8
from ..._src.core.exchange import seen_memory, to_numpy
from ..._src.core.naming import defining_module
from ..._src.core.native import Tensor
from ..._src.core.tensor import empty
from ..._src.restored import rebuild_tensor
from ...nn import Parameter
from ...serialization import entry, storage_bytes, stored
from .fields import SerializeError, entries, field, of_kind, union

NUMBERS = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8,
           "complex32": 9, "complex64": 10, "complex128": 11, "bool": 12, "bfloat16": 13, "uint16": 28,
           "float8_e4m3fn": 29, "float8_e5m2": 30, "float8_e4m3fnuz": 31, "float8_e5m2fnuz": 32, "uint32": 34,
           "uint64": 35}
DTYPES = {number: BY_NAME[name] for name, number in NUMBERS.items() if name in BY_NAME}
LAYOUTS = {1: sparse_coo, 2: sparse_csr, 3: sparse_csc, 4: sparse_bsr, 5: sparse_bsc, 7: strided, 8: jagged}
FORMATS = {1: contiguous_format, 2: channels_last, 3: channels_last_3d, 4: preserve_format}
MOST_DIMENSIONS = 64
RATIO, SMALL = 200, 1 << 20  # bounds of an entry's compression ratio, above this size in bytes


def number_of(dtype) -> int:
    """The number of a dtype.  SerializeError for one that PyTorch's format has no number for."""
    if dtype.name not in NUMBERS:
        raise SerializeError(f"tensors of {dtype} cannot be written into a file of a program")
    return NUMBERS[dtype.name]


def dtype_of(number):
    return known(DTYPES, number, "a dtype")


def known(table, number, what: str):
    """Return the object of a code.  SerializeError for an unknown one."""
    if type(number) is not int or number not in table:
        raise SerializeError(f"the file has {number!r} for {what}, which is none of {sorted(table)}")
    return table[number]


def key_in(table, value) -> int:
    return next(number for number, one in table.items() if one is value)


def device_record(device) -> dict:
    return {"type": device.type, "index": device.index}


def device_of(record):
    """A device of a file.  SerializeError for one that is not known."""
    kind, index = field(record, "type", str), field(record, "index", int, None)
    try:
        return Device(kind) if index is None else Device(kind, index)
    except (RuntimeError, ValueError, TypeError) as error:
        raise SerializeError(f"the file has a device that is not known: {error}") from None


def meta_record(dtype, sizes, strides, device, requires_grad=False, offset=0) -> dict:
    """Return the metadata record of a tensor; sizes, strides and the offset are results of ``size_record``."""
    return {"dtype": number_of(dtype), "sizes": sizes, "requires_grad": requires_grad,
            "device": device_record(device), "strides": strides, "storage_offset": offset, "layout": 7}


def number_record(value: int) -> dict:
    return {"as_int": int(value)}


class Tables:
    """Writes tensors into an archive: ``add(folder, name, stem, tensors)`` makes a table of some, by name."""

    def __init__(self, archive):
        self.archive = archive

    def add(self, folder: str, stem: str, tensors: dict, table: str):
        """Tensors as entries ``folder/stem0`` and on, and the table of them."""
        config, names, kept = {}, {}, []
        for name, tensor in tensors.items():
            self.check(name, tensor)
            storage = tensor._rush_storage
            if id(storage) not in names:
                names[id(storage)] = f"{stem}{len(names)}"
                on_host = tensor.device.provider.on_host
                held = storage if on_host else UntypedStorage(tensor).cpu().tensor()._rush_storage
                kept.append(held)  # alive, so that no other storage has its id
                self.archive.write(f"{folder}{names[id(storage)]}", storage_bytes(held))
            record = meta_record(tensor.dtype, list(map(number_record, tensor.shape)),
                                 list(map(number_record, tensor.stride())), tensor.device, bool(tensor.requires_grad),
                                 number_record(tensor.storage_offset()))
            config[name] = {"path_name": names[id(storage)], "is_param": isinstance(tensor, Parameter),
                            "use_pickle": False, "tensor_meta": record}
        self.archive.write(f"{folder}{table}", json.dumps({"config": config}))

    @staticmethod
    def check(name, tensor):
        """SerializeError for what is no plain tensor with data."""
        if not isinstance(tensor, Tensor):
            raise SerializeError(f"{name} is a {type(tensor).__name__}: a file of a program has tensors only")
        plain = not (tensor.layout is not strided or tensor.is_quantized or tensor.is_nested or tensor._rush_turned)
        if not plain or tensor._rush_storage is None or not tensor.device.provider.has_data or type(tensor) not in (
                Tensor, Parameter) and not defining_module(type(tensor)).startswith("rushlight.nn"):
            raise SerializeError(f"{name} is a {type(tensor).__name__} on {tensor.device} with the layout "
                                 f"{tensor.layout}: a file of a program has plain tensors with data only")


def read_tables(source, folder: str, table) -> dict:
    """The tensors of a table by name; those in one piece of memory share it.  SerializeError where one would reach
    beyond its bytes."""
    memory, found = {}, {}
    for name, record in field(table, "config", dict).items():
        if field(record, "use_pickle", bool):
            raise SerializeError(f"the file has {name!r} as a pickle, which is not read: it could run code")
        path = field(record, "path_name", str)
        meta = field(record, "tensor_meta", dict)
        if path not in memory:
            memory[path] = source.memory(folder + path)
        found[name] = tensor_in(memory[path], meta, name, field(record, "is_param", bool))
    return found


def tensor_in(memory, meta, name, is_parameter):
    """A tensor over bytes that were read."""
    dtype, device = dtype_of(field(meta, "dtype", int)), device_of(field(meta, "device", dict))
    if field(meta, "layout", int) != 7:
        raise SerializeError(f"{name} has another layout than strided, which is not read")
    sizes, strides = (whole_numbers(entries(meta, key, dict)) for key in ("sizes", "strides"))
    offset = whole_numbers([field(meta, "storage_offset", dict)])[0]
    if len(sizes) != len(strides) or len(sizes) > MOST_DIMENSIONS:
        raise SerializeError(f"{name} has {len(sizes)} sizes and {len(strides)} strides")
    if device.provider is None or not device.provider.count():
        raise SerializeError(f"{name} is on {device}, which this host does not have")
    if not device.provider.on_host:
        memory = memory.to(device)
    wants_gradient = field(meta, "requires_grad", bool)
    if wants_gradient and not (dtype.is_floating_point or dtype.is_complex):
        raise SerializeError(f"{name} has gradients, though it is of {dtype}")
    if memory.numel() % dtype.itemsize:
        raise SerializeError(f"{name} has {memory.numel()} bytes, not a multiple of the element size of {dtype}")
    made = rebuild_tensor(stored(memory, dtype), offset, tuple(sizes), tuple(strides), False)
    return Parameter(made, wants_gradient) if is_parameter else made.requires_grad_(wants_gradient)


def whole_numbers(records) -> list:
    """The ints of records, none of which may be negative."""
    found = []
    for record in records:
        kind, value = union(record, "a size")
        if kind != "as_int" or of_kind(value, int, "a size") < 0:
            raise SerializeError(f"the file has {value!r} for a size of a tensor")
        found.append(value)
    return found


class Source:
    """The entries of an archive that is read: ``text(name)`` and ``memory(name)``.  SerializeError for one that is
    missing, or that would grow beyond all measure."""

    def __init__(self, archive, prefix):
        self.archive, self.prefix, self.names = archive, prefix, set(archive.namelist())

    def __contains__(self, name):
        return self.prefix + name in self.names

    def within(self, folder) -> list:
        """Return the names of the entries in a directory, without it, in archive order."""
        start = self.prefix + folder
        return [name.removeprefix(start) for name in self.archive.namelist()
                if name.startswith(start) and name != start]

    def size(self, name) -> int:
        if name not in self:
            raise SerializeError(f"the file has no entry {name[:80]!r}")
        info = self.archive.getinfo(self.prefix + name)
        if info.file_size > SMALL and info.file_size > RATIO * info.compress_size:
            raise SerializeError(f"the entry {name} has {info.file_size} bytes, but only {info.compress_size} "
                                 "in the file")
        return info.file_size

    def text(self, name) -> bytes:
        self.size(name)
        return bytes(entry(self.archive, self.prefix + name))

    def memory(self, name):
        """The bytes of an entry as a tensor."""
        memory = empty((self.size(name),), uint8)
        entry(self.archive, self.prefix + name, lambda size: to_numpy(memory, seen_memory))
        return memory
