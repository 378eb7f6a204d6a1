"""The bytes under tensors, and, deprecated, their elements: ``torch.storage``."""
from __future__ import annotations

import copy
import sys

import numpy as np

from ._src.core.later import later
from ._src.core.advice import deprecated
from ._src.core.convert import NOT_AVAILABLE, InProcess, UntypedStorage
from ._src.core.devices import placed
from ._src.core.dtypes import BY_NAME, Defaults, bool_, type_name, uint8
from ._src.core.exchange import from_numpy, tensor
from ._src.core.meta import Meta
from ._src.core.native import Tensor, wrap
from ._src.core.op import OPS
from ._src.core.tensor import count_apart


class Removal:
    """How often a process warns that typed storages will be removed: at their first use, at each with
    ``is_repeated``."""

    is_repeated = is_given = False

    @classmethod
    def warn(cls, name: str, instead: str):
        if cls.is_repeated or not cls.is_given:
            cls.is_given = True
            deprecated(name, instead)


def _get_always_warn_typed_storage_removal() -> bool:
    """Return whether each use of a typed storage warns."""
    return Removal.is_repeated


def _set_always_warn_typed_storage_removal(always_warn: bool):
    """Sets whether each use of a typed storage warns.  AssertionError for anything but a bool."""
    if not isinstance(always_warn, bool):
        raise AssertionError(f"expected a bool, but got {type(always_warn).__name__}")
    Removal.is_repeated = always_warn


class TypedStorage(InProcess):
    """All elements of a dtype in the memory under a tensor, as PyTorch had them before storages were bytes.

    Of a list of numbers, of a number of elements, or (``wrap_storage``) of bytes.

    >>> storage = TypedStorage([1.0, 2.0])
    >>> storage.size(), storage[1], storage.dtype
    (2, 2.0, torch.float32)
    """

    is_sparse = is_hpu = False

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        if not _internal:
            Removal.warn("TypedStorage", "tensor.untyped_storage()")
        dtype = dtype or Defaults.floating
        if wrap_storage is not None:
            self.elements = elements_of(wrap_storage._tensor, dtype)
        elif args and not isinstance(args[0], int):
            self.elements = tensor(args[0], dtype=dtype, device=device)
        else:
            self.elements = OPS["empty"]((args[0] if args else 0,), dtype=dtype, device=device)

    dtype = property(lambda self: self.elements.dtype)
    device = property(lambda self: self.elements.device)
    _untyped_storage = property(lambda self: self.untyped())

    def tensor(self) -> Tensor:
        """The elements."""
        return self.elements

    def to(self, device, non_blocking=False):
        """The elements on a device: itself where they are."""
        made = self.elements.to(placed(device), non_blocking=non_blocking)
        return self if made is self.elements else typed(made)

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self.elements.untyped_storage()

    def data_ptr(self) -> int:
        return self.untyped().data_ptr()

    def nbytes(self) -> int:
        return self.untyped().nbytes()

    def element_size(self) -> int:
        return self.elements.element_size()

    def size(self) -> int:
        """How many elements there are."""
        return self.elements.numel()

    __len__ = size

    def resize_(self, size: int):
        """Another number of elements; those after the former ones are undefined."""
        self.elements = elements_of(self.untyped().resize_(size * self.element_size())._tensor, self.dtype)

    def __getitem__(self, index):
        found = self.with_data(text=NOT_AVAILABLE).elements[index]
        return found.item() if isinstance(index, int) else typed(found)

    def __setitem__(self, index, value):
        self.elements[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def tolist(self) -> list:
        return self.with_data(text=NOT_AVAILABLE).elements.tolist()

    def fill_(self, value):
        """Every element set to one value."""
        self.elements.fill_(value)
        return self

    def copy_(self, source, non_blocking=False):
        """The elements of another storage, converted."""
        source.with_data()
        self.elements.copy_(source.elements if isinstance(source, TypedStorage) else source.bytes.view(self.dtype))
        return self

    def clone(self):
        return typed(self.elements.clone())

    def type(self, dtype=None, non_blocking=False):
        """The name of the type of storage, or a conversion to a dtype."""
        return f"torch.{type_name(self.dtype)}Storage" if dtype is None else typed(self.elements.to(dtype))

    def __repr__(self):
        lines = "".join(f" {value}\n" for value in self.tolist())
        return f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self.size()}]"


    def pickle_storage_type(self) -> str:
        """The name of the class of storages of this dtype, which files have."""
        return f"{type_name(self.dtype)}Storage"

    def _resize_(self, size: int):
        self.resize_(size)

    def _deepcopy(self, memo):
        return copy.deepcopy(self, memo)

    _getitem, _setitem = __getitem__, __setitem__
    _dtype = dtype


# PyTorch's names for methods that do not warn, which libraries call
for _name in ("size", "nbytes", "element_size", "data_ptr", "is_shared", "share_memory_", "pickle_storage_type"):
    setattr(TypedStorage, f"_{_name}", getattr(TypedStorage, _name))

for _name in ("float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool"):
    setattr(TypedStorage, _name, lambda self, convert=getattr(Tensor, _name): typed(convert(self.elements)))


def typed(elements: Tensor) -> TypedStorage:
    """The storage that has these elements."""
    made = TypedStorage.__new__(TypedStorage)
    made.elements = elements
    return made


def elements_of(source: Tensor, dtype) -> Tensor:
    """All elements of a dtype in the memory under a tensor; writes to them are not counted for the tensor, as in
    PyTorch."""
    found = wrap(source._rush_storage, 0,
                 Meta.of((source._rush_storage.nbytes // dtype.itemsize,), dtype, source.device),
                 dtype.itemsize)
    count_apart(found, 0)
    return found


def _dtype_to_storage_type_map() -> dict:
    """The name of the class of storages of each dtype."""
    return {found: f"{type_name(found)}Storage" for found in BY_NAME.values()}


def _storage_type_to_dtype_map() -> dict:
    """The dtype of each class of storages, by its name."""
    return {name: found for found, name in _dtype_to_storage_type_map().items()}


def storage(self) -> TypedStorage:
    """The elements in the memory under this tensor.  Deprecated: ``untyped_storage()`` is what there is."""
    Removal.warn("Tensor.storage()", "Tensor.untyped_storage()")
    return _typed_storage(self)


def _typed_storage(self) -> TypedStorage:
    """``storage()`` without a warning."""
    return typed(elements_of(self, self.dtype))


class StorageType(type):
    """Classes whose instances are the storages of one dtype."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype

    def __call__(cls, *args, **options):
        return TypedStorage(*args, dtype=cls.dtype, **options)

    def from_buffer(cls, buffer, byte_order=None, count=-1, offset=0) -> TypedStorage:
        """A copy of ``count`` elements from a byte of a buffer on, all of them by default.  ``byte_order``: "native",
        "little" or "big".

        >>> import rushlight as rl
        >>> rl.ShortStorage.from_buffer(bytes([0, 1, 0, 2]), "big").tolist()
        [1, 2]
        """
        order = sys.byteorder if byte_order == "native" or cls.dtype is uint8 else byte_order  # a byte has none
        if order is None:
            raise RuntimeError("from_buffer() is missing required argument 'byte_order' (pos 2)")
        if order not in ("little", "big"):
            raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little' or 'native')")
        size, each = memoryview(buffer).nbytes, cls.dtype.itemsize
        if offset < 0 or offset > size:
            raise ValueError(
                f"offset must be non-negative and no greater than buffer length ({size}), but got {offset}")
        if count < 0 and (size - offset) % each:
            raise ValueError(f"buffer size ({size - offset}) must be a multiple of element size ({each})")
        nbytes = count * each if count >= 0 else size - offset
        if offset + nbytes > size:
            raise ValueError(f"buffer has only {size - offset} bytes after offset {offset}, but {nbytes} are wanted")
        part = np.frombuffer(buffer, np.uint8, nbytes, offset).copy() if nbytes else np.zeros(0, np.uint8)
        if order != sys.byteorder:
            each //= 1 + cls.dtype.is_complex  # both parts of a complex number turn by themselves
            part = part.reshape(-1, each)[:, ::-1].copy().reshape(-1)
        if cls.dtype is bool_:
            part = (part != 0).view(np.uint8)
        return TypedStorage(wrap_storage=UntypedStorage(from_numpy(part)), dtype=cls.dtype, _internal=True)


def __getattr__(name):
    found = next((d for d in BY_NAME.values() if f"{type_name(d)}Storage" == name), None)
    if found is None:
        return later(__name__)(name)
    made = globals()[name] = StorageType(name, (), {"dtype": found, "_dtype": found, "__module__": "torch",
                                                    "__doc__": f"The storages of {found}."})
    return made
