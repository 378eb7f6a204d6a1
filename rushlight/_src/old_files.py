"""Checkpoints from before zip archives (PyTorch 0.4 to 1.5, and ``_use_new_zipfile_serialization=False``): five
pickles, then the storages.

The pickles are a magic number, the version of the protocol, a description of the machine, the object, and the keys of
its storages.  Each storage is its number of elements (int64) and their bytes.  A first pass over the pickle finds the
storages, so that their bytes are present when objects over them are checked.
"""
from __future__ import annotations

import io
import os
import pickle
import struct

import numpy as np

from .core.dtypes import BY_NAME, dtype as Dtype
from .core.errors import CorruptFileError
from .core.exchange import from_numpy, to_numpy
from .core.meta import Meta
from .core.native import wrap
from .core.tensor import empty
from .restored import REMEDY
from . import entries
from ..serialization import ALLOWED, UNTYPED, Pickler, StorageReference, guarded, storage_bytes, stored
from .weights import OTHER, WeightsUnpickler

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001
MACHINE = {"protocol_version": VERSION, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}


class LegacyPickler(Pickler):
    """Pickle storages with persistent ids of six values; the last one describes a view of another storage (none is)."""

    def persistent_id(self, obj):
        found = super().persistent_id(obj)
        return found and (*found, None)

    def reference(self, tensor, typed=True):
        if tensor.dtype in UNTYPED:
            raise ValueError(
                f"{tensor.dtype} cannot be saved in the old format: leave _use_new_zipfile_serialization as it is")
        found: StorageReference = super().reference(tensor, typed)
        self.sizes[found.key] = tensor.dtype.itemsize if typed else 1
        return found


def write(obj, file, pickler=lambda kind, text: kind(text)):
    """Write an object in the old format; ``pickler(kind, text)`` makes the pickler."""
    for value in (MAGIC, VERSION, MACHINE):
        pickle.dump(value, file, protocol=2)
    pickler = pickler(LegacyPickler, text := io.BytesIO())
    pickler.sizes = {}
    pickler.dump(obj)
    file.write(text.getvalue())
    keys = sorted(pickler.storages)
    pickle.dump(keys, file, protocol=2)
    for key in keys:
        storage = pickler.storages[key]
        file.write(struct.pack("<q", storage.nbytes // pickler.sizes[key]))
        file.write(storage_bytes(storage))


class Nothing:
    """Placeholder for all objects of a pickle while only its storages are collected."""

    def ignore(self, *items):
        pass

    append = extend = add = update = __setitem__ = __init__ = ignore


class Survey(WeightsUnpickler):
    """Collect the storages that a pickle names, and make no objects: the bytes of storages are read before objects over
    them are checked."""

    dispatch = dict(pickle._Unpickler.dispatch)

    def find_class(self, module, name):
        found = ALLOWED.get((module, name))
        return found if isinstance(found, Dtype) else Nothing

    def load_made(self):
        self.stack.pop()
        self.stack[-1] = Nothing()

    def load_state(self):
        self.stack.pop()

    def load_item(self):
        del self.stack[-2:]

    def load_items(self):
        self.pop_mark()


Survey.dispatch.update({pickle.REDUCE[0]: Survey.load_made, pickle.NEWOBJ[0]: Survey.load_made,
                        pickle.BUILD[0]: Survey.load_state,
                        pickle.SETITEM[0]: Survey.load_item,
                        **{opcode[0]: Survey.load_items for opcode in (pickle.SETITEMS, pickle.ADDITEMS)},
                        **{opcode[0]: WeightsUnpickler.load_other for opcode in OTHER}})


class Named:
    """The storages of a file by their keys, as its pickle names them."""

    def __init__(self, places, most):
        self.places, self.most, self.known, self.types = places, most, {}, {}
        self.complete = False  # True once the bytes of all storages were read

    def __call__(self, dtype, key, location, count, view=None):
        # of Python 2, read with encoding="bytes"
        key, location = (s.decode("latin1") if isinstance(s, bytes) else s for s in (key, location))
        if key not in self.known:
            if self.complete:
                raise CorruptFileError(f"a storage {key!r} without bytes", "bytes for each storage of the object",
                                       REMEDY)
            if type(count) is not int or count < 0 or count * dtype.itemsize > self.most:
                raise CorruptFileError(f"a storage of {count} elements in a file of {self.most} bytes",
                                       "a storage that the file holds", REMEDY)
            made = empty((count * dtype.itemsize,), BY_NAME["uint8"], device=self.places.readable(location))
            self.known[key], self.types[key] = self.places.settled(made, location), dtype
        memory = self.known[key]
        if view is not None:
            _, start, size = view
            if not all(type(n) is int and n >= 0
                       for n in (start, size)) or (start + size) * dtype.itemsize > memory.nbytes:
                raise CorruptFileError(f"a view of {size} elements from {start} of a storage of {memory.nbytes} bytes",
                                       "one within the storage", REMEDY)
            memory = wrap(memory._rush_storage, memory._rush_offset + start * dtype.itemsize,
                          Meta.of((size * dtype.itemsize,), BY_NAME["uint8"], memory.device), 1)
        return stored(memory, dtype)


def load(file, read, places):
    """The object in a file; ``read(file, storages)`` reads one pickle."""
    at = file.tell()
    most = file.seek(0, os.SEEK_END) - at
    file.seek(at)
    storages = Named(places, most)
    survey = guarded(lambda file, storages: Survey(file, storages, {}))
    survey(file, storages), survey(file, storages)
    machine = survey(file, storages)
    little = not isinstance(machine, dict) or machine.get("little_endian", True)
    start = file.tell()
    survey(file, storages)
    keys = survey(file, storages)
    for key in keys if isinstance(keys, list) else ():
        if key not in storages.known:
            raise CorruptFileError(f"bytes for the storage {key!r}, which no tensor has", "a storage of the object",
                                   REMEDY)
        fill(file, storages.known[key], storages.types[key], little)
    if not isinstance(keys, list) or set(keys) != set(storages.known):
        raise CorruptFileError("storages without bytes", "bytes for each storage of the object", REMEDY)
    end, storages.complete = file.tell(), True
    file.seek(start)
    found = read(file, storages)
    file.seek(end)
    return found


def fill(file, memory, dtype, little):
    """Read the bytes of a storage."""
    count, = struct.unpack("<q" if little else ">q", exactly(file, 8))
    if count * dtype.itemsize != memory.nbytes:
        raise CorruptFileError(f"{count} elements for a storage of {memory.nbytes} bytes",
                               f"{memory.nbytes // dtype.itemsize} elements", REMEDY)
    if not memory.device.provider.has_data:
        exactly(file, memory.nbytes)
        return
    target = to_numpy(memory) if memory.device.provider.on_host else np.empty(memory.nbytes, np.uint8)
    fill_exactly(file, memoryview(target))
    if not little and dtype.itemsize > 1:
        target.view(f"u{dtype.itemsize // (2 if dtype.is_complex else 1)}").byteswap(inplace=True)
    if not memory.device.provider.on_host:
        memory.copy_(from_numpy(target))


def fill_exactly(file, view: memoryview):
    """Fill memory with bytes of a file, directly if that has ``readinto``.  CorruptFileError if there are fewer."""
    if not hasattr(file, "readinto"):
        view[:] = exactly(file, len(view))
        return
    try:
        entries.fill(view, file.readinto)
    except EOFError as error:
        raise CorruptFileError(str(error), "a file that was written to its end", REMEDY) from None


def exactly(file, count):
    data = file.read(count)
    if len(data) != count:
        raise CorruptFileError(f"{len(data)} bytes instead of {count}", "a file that was written to its end", REMEDY)
    return data
