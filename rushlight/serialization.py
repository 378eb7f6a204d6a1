"""``save`` and ``load`` in PyTorch's zip format: files written here load there and the reverse.

An archive holds ``data.pkl`` (a pickle in which tensors name their storages) and one uncompressed entry for each
storage.
"""
from __future__ import annotations

import collections
import ctypes
import enum
import io
import mmap as mapping
import os
import pickle
import zipfile
import zlib
from collections.abc import Callable
from types import FunctionType

from ._src.core.cached import cached_property
from ._src.core.convert import InProcess, UntypedStorage, layout
from ._src.core.devices import device as Device
from ._src.core.dtypes import BY_NAME, BYTES, NAMED, NAMES, UNSIGNED, dtype as Dtype, type_name, uint8
from ._src.core.errors import CorruptFileError
from ._src.core.exchange import frombuffer, seen_memory, to_numpy
from ._src.core.files import replaced
from ._src.core.meta import Meta, Size
from ._src.core.naming import is_own
from ._src.core.native import Op, Tensor, wrap
from ._src.core.quantized import QSCHEMES, QUANTIZED, qscheme
from ._src.core.tensor import empty
from ._src.core.settings import settings
from .nn.parameter import Parameter
from ._src.archives import Archive, FileLike, GlobalName, folder_of, global_name
from ._src.compat.homes import name_in_files
from ._src.entries import read_entry
from ._src.file_options import (get_crc32_options, get_default_mmap_options, loading, set_crc32_options,  # noqa: F401
                                set_default_mmap_options, skip_data, skipping)
from ._src.restored import (BUILDERS, LAYOUTS, REMEDY, TURNED, ScriptObject, attributes, layout_named, quantizer_parts,
                            rebuild_from_type, rebuild_nested, rebuild_uneven, sparse_parts)
from ._src.weights import PLAIN, WeightsUnpickler, add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals, unsafe_names  # noqa: F401 - offered here

DEFAULT_PROTOCOL = 2  # of pickle
# what ``load`` takes to say where tensors go
MAP_LOCATION = Callable[[object, str], object] | Device | str | dict[str, str] | None
# dtypes that PyTorch writes with the tensor, since their storages are of bytes
UNTYPED = (*UNSIGNED, *BYTES, BY_NAME["complex32"])
STORAGES = {name + "Storage": BY_NAME[key] for key, name in NAMES.items() if BY_NAME[key] not in UNTYPED}
# read as their integer values
STORAGES.update({"QUInt8Storage": uint8, "QInt8Storage": BY_NAME["int8"], "QInt32Storage": BY_NAME["int32"]})
SCRIPTED = GlobalName("torch", "ScriptObject")


class StorageReference:
    """One storage of the archive."""

    def __init__(self, key, dtype, nbytes, location="cpu"):
        self.key, self.dtype, self.count, self.location = (key, dtype, nbytes if dtype in UNTYPED
                                                           else nbytes // dtype.itemsize, location)


class Pickler(pickle._Pickler):
    """Writes tensors as references to storages, which it collects."""

    dispatch = dict(pickle._Pickler.dispatch)

    def __init__(self, file, protocol=DEFAULT_PROTOCOL):
        super().__init__(file, protocol=protocol)
        self.storages, self.keys, self.dtypes = {}, {}, {}

    def save_global_name(self, obj):
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    dispatch[GlobalName] = save_global_name

    def persistent_id(self, obj):
        if isinstance(obj, StorageReference):
            kind = GlobalName("torch.storage",
                              "UntypedStorage") if obj.dtype in UNTYPED else GlobalName("torch", type_name(obj.dtype)
                                                                                        + "Storage")
            return "storage", kind, obj.key, obj.location, obj.count
        return None

    def reducer_override(self, obj):
        if isinstance(obj, Dtype):
            return GlobalName("torch", obj.name)
        if isinstance(obj, Device):
            return GlobalName("torch", "device"), (str(obj),)
        if type(obj) is Size:
            return GlobalName("torch", "Size"), (tuple(obj),)
        if isinstance(obj, qscheme):
            return GlobalName("torch", obj.name)
        if isinstance(obj, layout):
            return GlobalName("torch.serialization", "_get_layout"), (str(obj),)
        if isinstance(obj, Tensor):
            return self.reduced(obj)
        if isinstance(obj, FunctionType) and obj in BUILDER_NAMES:
            return GlobalName("torch._utils", BUILDER_NAMES[obj])
        if isinstance(obj, (type, FunctionType, Op)) and (place := self.name_in_files(obj)) is not None:
            return global_name(*place)
        inherited = getattr(super(), "reducer_override", None)
        return NotImplemented if inherited is None else inherited(obj)

    def name_in_files(self, obj) -> tuple[str, str] | None:
        """Return the module and name by which PyTorch, too, finds a class or function of Rushlight; None for others,
        and for those within a class, which are written as its attributes."""
        found = name_in_files(obj)
        return None if found is None or "." in found[1] else found

    def reduced(self, obj):
        """Return the function that rebuilds a tensor, and its arguments."""
        kind, state = type(obj), attributes(obj)
        if obj.is_nested:
            function, parts = obj.__reduce_ex__(2)
            return GlobalName(f"rushlight.nested.{function.__module__.rpartition('.')[2]}", function.__name__), parts
        if isinstance(obj, Parameter):
            parts = Tensor.detach(obj), bool(obj._rush_needs_grad), collections.OrderedDict()
            return (GlobalName("torch._utils", "_rebuild_parameter_with_state"),
                    (*parts, state)) if state else (GlobalName("torch._utils", "_rebuild_parameter"), parts)
        users = not is_own(kind)
        if (users or getattr(obj, "_wraps", False)) and kind.__reduce_ex__ is not Tensor.__reduce_ex__:
            return obj.__reduce_ex__(2)
        function, parts = self.wrapper(obj) if users and "_wraps" in vars(obj) else self.parts(obj)
        if users or state:
            own = getattr(kind, "__getstate__", None) if users else None
            state = own(obj) if own not in (None, getattr(object, "__getstate__", None)) else state
            return GlobalName("torch._tensor", "_rebuild_from_type_v2"), (function, kind if users
                                                                          else GlobalName("torch", "Tensor"), parts,
                                                                          state)
        return function, parts

    def wrapper(self, obj):
        """Return the function and arguments that rebuild a tensor of a ``__torch_dispatch__`` class."""
        return GlobalName("torch._utils", "_rebuild_wrapper_subclass"), (type(obj), obj.dtype, tuple(obj.size()),
                                                                         obj.stride(), obj.storage_offset(), obj.layout,
                                                                         obj.device, obj.requires_grad)

    def parts(self, obj):
        """Return the function and arguments that rebuild a plain tensor."""
        if obj.layout in LAYOUTS[1:]:
            return GlobalName("torch._utils", "_rebuild_sparse_tensor"), (obj.layout, sparse_parts(obj))
        if not obj.device.provider.has_data:
            return GlobalName("torch._utils", "_rebuild_meta_tensor_no_storage"), (obj.dtype, tuple(obj.shape),
                                                                                   tuple(obj.stride()),
                                                                                   bool(obj._rush_needs_grad))
        parts = self.reference(obj), obj._rush_offset, tuple(obj.shape), tuple(obj.stride()), bool(
            obj._rush_needs_grad), collections.OrderedDict()
        if obj.is_quantized:
            return GlobalName("torch._utils", "_rebuild_qtensor"), (*parts[:4], quantizer_parts(obj), *parts[4:])
        turned = ({name: True for name, bit in TURNED.items() if obj._rush_turned & bit},) if obj._rush_turned else ()
        if obj.dtype in UNTYPED:
            return GlobalName("torch._utils", "_rebuild_tensor_v3"), (*parts, obj.dtype, *turned)
        return GlobalName("torch._utils", "_rebuild_tensor_v2"), (*parts, *turned)

    def reference(self, tensor, typed=True):
        """The reference to the storage under a tensor.  RuntimeError where another tensor sees it as another dtype: a
        file names one for each storage."""
        storage, dtype = tensor._rush_storage, tensor._rush_meta.dtype if typed else UNSIGNED[0]
        key = self.keys.setdefault(id(storage), str(len(self.keys)))
        self.storages[key] = storage if tensor.device.provider.on_host else UntypedStorage(
            tensor).cpu().tensor()._rush_storage
        seen = uint8 if dtype in UNTYPED else dtype
        if storage.nbytes and self.dtypes.setdefault(key, seen) is not seen:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types: clone() one of "
                "them")
        return StorageReference(key, dtype, storage.nbytes, str(tensor.device))

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, InProcess):
            obj = self.reference(obj.tensor(), not isinstance(obj, UntypedStorage))
        if getattr(type(obj), "scripted", None) is not None and obj.scripted and id(obj) not in self.memo:
            return self.save_scripted(obj)
        changed = NotImplemented if isinstance(obj, (GlobalName, StorageReference)) else self.reducer_override(obj)
        if changed is NotImplemented:
            return super().save(obj, save_persistent_id)
        if isinstance(changed, GlobalName):
            return self.save(changed)
        if id(obj) in self.memo:
            return self.write(self.get(self.memo[id(obj)][0]))
        return self.save_reduce(*changed, obj=obj)

    def save_scripted(self, obj):
        """A prepared weight, as an object of PyTorch's class."""
        self.save(SCRIPTED)
        self.write(pickle.EMPTY_TUPLE + pickle.NEWOBJ)
        self.memoize(obj)
        self.save(obj.__getstate__())
        self.write(pickle.BUILD)


def writing(kind, pickle_module):
    """Return a class of picklers that write what is no tensor as another module's Pickler does.  NotImplementedError
    for a Pickler that derives neither from ``pickle._Pickler`` nor from ``pickle.Pickler``.
    """
    if pickle_module in (None, pickle):
        return kind
    base = pickle_module.Pickler
    if base is pickle.Pickler:
        return kind
    if issubclass(base, pickle.Pickler):
        return joining_compiled(kind, base)
    if not issubclass(base, pickle._Pickler):
        raise NotImplementedError(
            f"pickle_module: {base.__module__}.{base.__name__} derives neither from pickle._Pickler, as dill's does, "
            "nor from pickle.Pickler, as cloudpickle's does")
    return type(kind.__name__, (kind, base), {"dispatch": {**base.dispatch, GlobalName: kind.save_global_name}})


def joining_compiled(kind, base):
    """Return a class of picklers that write as ``kind`` does, and ask the hooks (``reducer_override``,
    ``dispatch_table``) of ``base``, a class derived from the compiled ``pickle.Pickler``."""
    class Joined(kind, base):
        memo, bin, fast = None, True, False  # pickle._Pickler keeps these in the instance, not in the compiled fields

        def __init__(self, file, protocol=DEFAULT_PROTOCOL):
            base.__init__(self, file, protocol)
            kind.__init__(self, file, protocol)

    return Joined


def save(obj, f, pickle_module=None, pickle_protocol=DEFAULT_PROTOCOL, _use_new_zipfile_serialization=True,
         _disable_byteorder_record=False):
    """Write an object with its tensors to a file (a path or a file object); a path is replaced only when writing is
    complete (``core/files.py``).  ``pickle_module`` pickles other objects; NotImplementedError for one whose Pickler
    is not Python's.  The byte order is recorded whatever ``_disable_byteorder_record`` says."""
    def write(obj, file):
        if _use_new_zipfile_serialization:
            return write_archive(obj, file, name, pickler=made)
        from ._src.old_files import write as write_old
        return write_old(obj, file, made)

    def made(kind, text):
        return writing(kind, pickle_module)(text, pickle_protocol)
    name = "archive"
    if hasattr(f, "write"):
        return write(obj, f)
    if not isinstance(f, (str, bytes, os.PathLike)):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute, but got "
            f"{type(f).__name__}")
    path = os.fspath(f)
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    name = folder_of(os.fsdecode(path))
    with replaced(path) as file:
        write(obj, file)


def write_archive(obj, file, name, sign=None, pickler=lambda kind, text: kind(text)):
    """Writes an object's archive; ``sign(pickle)`` gives the name and content of one entry more."""
    text = io.BytesIO()
    pickler = pickler(Pickler, text)
    pickler.dump(obj)
    with Archive(file, name) as archive:
        archive.begin(text.getvalue())
        if sign is not None:
            archive.write(*sign(text.getvalue()))
        for key, storage in pickler.storages.items():
            archive.write(f"data/{key}", bytes(storage.nbytes) if skipping.on else storage_bytes(storage))


def storage_bytes(storage) -> memoryview | bytes:
    """Return a storage's bytes, of any size; the storage must stay alive meanwhile."""
    return memoryview((ctypes.c_char * storage.nbytes)
                      .from_address(storage.address)).cast("B") if storage.nbytes else b""


BUILDER_NAMES = {function: name for name, function in BUILDERS.items()}
ALLOWED = {**{("torch._utils", name): function for name, function in BUILDERS.items()},
           ("torch._tensor", "_rebuild_from_type_v2"): rebuild_from_type,
           ("rushlight.nested.tensor", "restored"): rebuild_nested,
           ("rushlight.nested.uneven", "made_uneven"): rebuild_uneven,
           ("torch.storage", "UntypedStorage"): uint8, ("torch.serialization", "_get_layout"): layout_named,
           ("torch", "Tensor"): Tensor,
           ("torch", "Size"): Size, ("torch", "device"): Device, ("torch.nn.parameter", "Parameter"): Parameter,
           **{("torch", name): dtype for name, dtype in STORAGES.items()},
           **{("torch", name): dtype for name, dtype in (*((d.name, d) for d in NAMED), *BY_NAME.items())},
           **{("torch", name): dtype for name, dtype in QUANTIZED.items()},
           **{("torch", one.name): one for one in QSCHEMES}}


TRUSTED = {("torch", "ScriptObject"): ScriptObject}  # what is in files that are trusted, besides


def trusting(base):
    """A class, by another one's way to read, that reads the pickle of an archive that is trusted."""
    class Unpickler(base):
        def __init__(self, file, storages, encoding="utf-8", **how):
            super().__init__(file, encoding=encoding, **how)
            self.storages = storages

        def find_class(self, module, name):
            found = PLAIN.get((module, name)) or ALLOWED.get((module, name)) or TRUSTED.get((module, name))
            if found is not None:
                return found
            if module == "torch" or module.startswith("torch."):
                module = "rushlight" + module[5:]
            return super().find_class(module, name)

        def persistent_load(self, saved):
            return self.storages(*saved[1:])

    return Unpickler


Unpickler = trusting(pickle.Unpickler)


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Reads what ``save`` wrote.  ``map_location``: see ``locations.Places``.  ``mmap`` needs the path of an archive.
    ``pickle_module`` reads a file that is trusted, with ``pickle_load_args`` for its Unpickler.

    EOFError for an empty file, CorruptFileError (a RuntimeError) for one that is no such archive or is damaged,
    pickle.UnpicklingError for one that holds more than tensors and containers, unless ``weights_only`` is false.
    """
    if not hasattr(f, "read"):
        mapped = (loading.mmap if mmap is None else mmap) and Mapped
        with open(f, "r+b" if mapped and loading.mmap_flags == mapping.MAP_SHARED else "rb") as file:
            if mapped and not _is_zipfile(file):
                raise RuntimeError("mmap can only be used with files saved as zip archives: this one is older, or none")
            return read_file(file, map_location, pickle_module, weights_only, pickle_load_args, mapped or Storages)
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    return read_file(f, map_location, pickle_module, weights_only, pickle_load_args)


def read_file(f, map_location, pickle_module, weights_only, pickle_load_args, kind=None):
    """Reads an open file; ``kind``: the class of its storages."""
    safe = only_weights(False if weights_only is None and pickle_module is not None else weights_only)
    if safe and pickle_module is not None:
        raise RuntimeError(
            "Can not safely load weights when explicit pickle_module is specified: leave it out, or pass "
            "weights_only=False for a file from where you trust")
    check_seekable(f)
    if is_legacy(f):
        from ._src.old_files import load as load_legacy  # from before zip archives
        return load_legacy(f, reader(safe, pickle_module, pickle_load_args), place_of(map_location))
    archive, prefix = opened(f)
    storages = (kind or Storages)(archive, f"{prefix}data/", place_of(map_location), byte_order(archive, prefix))
    return reader(safe, pickle_module, pickle_load_args)(io.BytesIO(entry(archive, f"{prefix}data.pkl")), storages)


def only_weights(asked) -> bool:
    """Return True if a file may hold weights only: the argument, or the environment's default."""
    if settings.force_weights_only and settings.force_no_weights_only:
        raise RuntimeError("Only one of TORCH_FORCE_WEIGHTS_ONLY_LOAD and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD may be set")
    return settings.force_weights_only or (not settings.force_no_weights_only if asked is None else bool(asked))


def reader(safe, pickle_module=None, how=()):
    """Return a function of a file and its storages that reads one pickle; ``how``: further arguments of the
    Unpickler; one for weights only takes just ``encoding``."""
    if safe and (unknown := sorted(dict(how).keys() - {"encoding"})):
        raise TypeError(f"load(weights_only=True) takes encoding alone for an Unpickler, but got {', '.join(unknown)}")
    if not safe:
        kind = Unpickler if pickle_module is None else trusting(pickle_module.Unpickler)
        return lambda file, storages: kind(file, storages, **dict(how)).load()

    return guarded(lambda file, storages: WeightsUnpickler(file, storages, ALLOWED, **dict(how)))


def guarded(unpickler):
    """``unpickler(file, storages).load()`` as a function, in which any error says that the file is damaged."""
    def read(file, storages):
        try:
            return unpickler(file, storages).load()
        except (pickle.UnpicklingError, CorruptFileError, MemoryError):
            raise
        except Exception as error:  # nothing but the file's own bytes can have caused it
            raise CorruptFileError(f"data.pkl is damaged: {type(error).__name__}: {error}", "a pickle",
                                   REMEDY) from error
    return read


def get_unsafe_globals_in_checkpoint(f) -> list:
    """The names in a file that ``load(weights_only=True)`` would refuse."""
    if not hasattr(f, "read"):
        with open(f, "rb") as file:
            return get_unsafe_globals_in_checkpoint(file)
    if is_legacy(f):
        raise ValueError(
            "Expected input to be a checkpoint returned by torch.save: this one is older than zip archives")
    archive, prefix = opened(f)
    return unsafe_names(bytes(entry(archive, f"{prefix}data.pkl")), ALLOWED)


def check_seekable(f):
    """AttributeError for a file in which one cannot go back."""
    try:
        f.seek(f.tell())
    except (AttributeError, io.UnsupportedOperation) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the data into a buffer "
            "like io.BytesIO and try to load from it instead.") from None


def _is_zipfile(f) -> bool:
    """True if a file has a zip archive at its position, which is kept."""
    start = f.tell()
    found = f.read(4) == b"PK\x03\x04"
    f.seek(start)
    return found


LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # how files from before zip archives begin: the pickle of a number


def is_legacy(f) -> bool:
    start = f.read(len(LEGACY))
    f.seek(-len(start), os.SEEK_CUR)
    return start == LEGACY


def byte_order(archive, prefix) -> str:
    """The order of bytes in an archive's numbers: "little" or "big"."""
    if prefix + "byteorder" not in archive.namelist():
        return "big" if LoadEndianness.chosen is LoadEndianness.BIG else "little"
    found = bytes(entry(archive, prefix + "byteorder")).decode(errors="replace")
    if found not in ("little", "big"):
        raise ValueError(f"Unknown endianness type: {found}")
    return found


class LoadEndianness(enum.Enum):
    """Byte order of files that do not record it."""

    NATIVE, LITTLE, BIG = 1, 2, 3


LoadEndianness.chosen = None


def get_default_load_endianness():
    """What ``set_default_load_endianness`` set."""
    return LoadEndianness.chosen


def set_default_load_endianness(endianness):
    """Set the byte order of files that do not record it.  TypeError for anything but a LoadEndianness or None."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    LoadEndianness.chosen = endianness


def place_of(map_location):
    """Return a function that maps a file's storages to devices."""
    from ._src.locations import Places
    return Places(map_location)


def open_archive(f) -> zipfile.ZipFile:
    """The archive in a file.  EOFError for an empty file, CorruptFileError for one that is no archive."""
    try:
        archive = zipfile.ZipFile(f if hasattr(f, "seekable") else FileLike(f))
    except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError, ValueError, EOFError, OSError) as error:
        f.seek(0, os.SEEK_END)
        if f.tell() == 0:
            raise EOFError("the checkpoint is empty: 0 bytes; it was not written to its end") from None
        raise CorruptFileError(
            f"PytorchStreamReader failed reading zip archive: not a checkpoint, or a damaged one: {error}",
            "a zip archive with data.pkl", REMEDY) from None
    check_total(archive)
    return archive


def opened(f):
    """Return the archive in a file, and its top directory."""
    archive = open_archive(f)
    for name in archive.namelist():
        if name.endswith("/data.pkl"):
            return archive, name[: -len("data.pkl")]
    raise CorruptFileError(f"PytorchStreamReader failed locating data.pkl among {archive.namelist()[:4]}",
                           "an archive written by save", REMEDY)


MOST_EXPANSION = 100  # times the archive's bytes that a compressed entry may hold: save() compresses nothing
SMALL = 1 << 24  # bytes that compressed entries may hold in any case
DAMAGE = (KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError, UnicodeDecodeError, ValueError, EOFError,
          RuntimeError, OSError)


def check_total(archive):
    """CorruptFileError for an archive whose entries hold more together than its bytes can: those that are not
    compressed overlap, or compressed ones expand to more than ``MOST_EXPANSION`` times the archive."""
    sizes = {True: 0, False: 0}
    for info in archive.infolist():
        sizes[info.compress_type == zipfile.ZIP_STORED] += info.file_size
    problem = ""
    if sizes[True] > archive.start_dir:
        problem = f"its entries hold {sizes[True]} bytes, which are more than the {archive.start_dir} of the archive"
    elif sizes[False] > max(archive.start_dir * MOST_EXPANSION, SMALL):
        problem = (f"its compressed entries hold {sizes[False]} bytes, which are more than {MOST_EXPANSION} times the "
                   f"{archive.start_dir} of the archive")
    if problem:
        raise CorruptFileError(f"PytorchStreamReader failed reading zip archive: {problem}",
                               "entries that do not overlap, compressed a hundredfold at most", REMEDY)


def entry(archive, name, memory=lambda size: bytearray(size)):
    """The bytes of one entry, checked against its sum, read piece by piece into what ``memory`` gives."""
    try:
        info = archive.getinfo(name)
        size = info.file_size
        if info.compress_type == zipfile.ZIP_STORED and size > archive.start_dir:
            raise EOFError(f"{size} bytes are more than the archive has")
        if size > max(archive.start_dir * MOST_EXPANSION, SMALL):
            raise EOFError(f"{size} bytes are more than {MOST_EXPANSION} times the {archive.start_dir} bytes of the "
                           "archive, which is the most that compressed entries may hold")
        if info.CRC == 0:  # as files have that were written without sums
            info.CRC = None
        with archive.open(info) as source:
            target = memory(size)
            read_entry(archive, info, source, memoryview(target).cast("B"))
        return target
    except DAMAGE as error:
        raise CorruptFileError(f"PytorchStreamReader failed reading file {name}: {error}", "an intact entry",
                               REMEDY) from None


def stored(memory, dtype):
    """The storage whose bytes a uint8 tensor is."""
    from .storage import typed
    return typed(wrap(memory._rush_storage, memory._rush_offset // dtype.itemsize,
                      Meta.of((memory.numel() // dtype.itemsize,), dtype, memory.device), dtype.itemsize))


class Storages:
    """The storages of an archive, each read when it is first asked for."""

    ending = ""  # of the names of entries

    def __init__(self, archive, folder, places, order="little"):
        self.archive, self.folder, self.places, self.order, self.known = archive, folder, places, order, {}

    def __call__(self, dtype, key, location="cpu", *_):
        if key not in self.known:
            self.fill(key, self.places.readable(location))
            self.turn(key, dtype)
            self.known[key] = self.places.settled(self.known[key], location)
        return stored(self.known[key], dtype)

    def fill(self, key, device):
        """Enters a tensor of a storage's bytes."""
        name = f"{self.folder}{key}{self.ending}"
        if skipping.on:
            self.memory(key, self.archive.getinfo(name).file_size, device)
        else:
            entry(self.archive, name, lambda size: self.memory(key, size, device))

    def turn(self, key, dtype):
        """Turns the bytes of numbers round where the file has the greatest first."""
        if self.order == "big" and dtype.itemsize > 1 and self.known[key].device.provider.has_data:
            view = to_numpy(self.known[key], seen_memory)
            width = dtype.itemsize // (2 if dtype.is_complex else 1)
            whole = view[:len(view) // width * width].view(f"u{width}")
            whole.byteswap(inplace=True)

    def memory(self, key, size, device):
        """A tensor of this many bytes, entered under its key; the bytes to write (its own, but on the meta device)."""
        tensor = self.known[key] = empty((size,), BY_NAME["uint8"], device=device)
        return to_numpy(tensor, seen_memory) if device.provider.has_data else bytearray(size)


class Mapped(Storages):
    """Storages that are parts of the file, mapped: what is never asked for is never read.  Sums are not checked."""

    @cached_property
    def bytes(self):
        return mapping.mmap(self.archive.fp.fileno(), 0, flags=loading.mmap_flags)

    def fill(self, key, device):
        info = self.archive.getinfo(f"{self.folder}{key}{self.ending}")
        if info.compress_type != zipfile.ZIP_STORED or not info.file_size or not device.provider.on_host or (
                skipping.on):
            return super().fill(key, device)
        head = self.bytes[info.header_offset:info.header_offset + 30]
        start = info.header_offset + 30 + sum(int.from_bytes(head[at:at + 2], "little") for at in (26, 28))
        if start + info.file_size > len(self.bytes) or head[:4] != b"PK\x03\x04":
            raise CorruptFileError(f"PytorchStreamReader failed reading file {info.filename}: it ends before its end",
                                   "an intact entry", REMEDY)
        self.known[key] = frombuffer(self.bytes, dtype=uint8, count=info.file_size, offset=start)
