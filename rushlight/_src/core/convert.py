"""Conversions users call on tensors: ``to``, ``float()``, ``cpu()``, printing, pickling and similar."""
from __future__ import annotations

import functools

import numpy as np

from . import devices, dtypes
from .advice import warn
from .copying import copied_attributes
from .epoch import Epoch
from .meta import Meta, Size
from .later import entered
from .native import UNCOUNTED, Tensor, weights, wrap
from .op import OPS
from .overriding import DISPATCH, kind_of
from .tensor import address, alias, attach, blank, borrowed, count_apart, empty, empty_of, show, take_memory


moved, written, copied_bytes = (entered("_src.autograd.moving", name) for name in ("moved", "written", "copied_bytes"))


class Named:
    """A constant that is known by its name among those of the package, and pickled by it."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return self.name


class memory_format(Named):
    """An order of dimensions in memory: ``contiguous_format``, ``channels_last``, ``channels_last_3d``,
    ``preserve_format``."""


contiguous_format, channels_last, channels_last_3d, preserve_format = map(
    memory_format, ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format"))


class layout(Named):
    """The storage layout of elements: ``strided``, ``sparse_coo``, ``sparse_csr``, ``sparse_csc``, ``sparse_bsr``,
    ``sparse_bsc``, ``jagged``."""


strided, sparse_coo, sparse_csr, jagged = map(layout, ("strided", "sparse_coo", "sparse_csr", "jagged"))
sparse_csc, sparse_bsr, sparse_bsc = map(layout, ("sparse_csc", "sparse_bsr", "sparse_bsc"))
Tensor.layout = strided


def spell_layout(value) -> str:
    """The name of a layout in messages: Strided, Sparse, SparseCsr."""
    return "".join(part.capitalize() for part in value.name.removesuffix("_coo").split("_"))


NO_DATA = "Cannot copy out of meta tensor; no data!"


@attach
def to(self, *args, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None):
    """This tensor as another dtype, device or memory format; itself where nothing changes and ``copy`` is false."""
    dtype = dtypes.meant(dtype)
    flags = [value for value in args if isinstance(value, bool)]
    non_blocking, copy = (*flags, *(non_blocking, copy)[len(flags):])[:2]
    for value in map(dtypes.meant, args):
        if isinstance(value, dtypes.dtype):
            dtype = value
        elif isinstance(value, Tensor):
            dtype, device = value.dtype, value.device
        elif isinstance(value, (str, devices.device)) or value is None:
            device = value if value is not None else device
        elif isinstance(value, bool):
            pass
        elif isinstance(value, int):
            device = devices.device(value)
        else:
            raise TypeError(f"to() received an invalid argument of type {value.__class__.__name__}")
    where = self._rush_meta.device if device is None else devices.placed(device)
    if where is not self._rush_meta.device:
        if not self._rush_meta.device.provider.has_data:
            raise NotImplementedError(NO_DATA)
        if not where.provider.has_data:
            return empty_of(Meta(tuple(self.shape), self._rush_meta.strides, dtype or self.dtype, where))
    out = self if where is self._rush_meta.device else moved(self, where, non_blocking)
    if dtype is not None and dtype is not self._rush_meta.dtype:
        if self._rush_meta.dtype.is_complex and not dtype.is_complex and dtype is not dtypes.bool_:
            warn("Casting complex values to real discards the imaginary part: write .real if that is meant.")
        out = OPS["_to_dtype"](out, dtype)
    if memory_format in (channels_last, channels_last_3d):
        out = out if out.is_contiguous(memory_format=memory_format) and out.stride(1) == 1 else OPS["clone"](
            out, memory_format=memory_format)
    elif memory_format is contiguous_format:
        out = OPS["contiguous"](out)
    return OPS["clone"](out) if copy and out is self else out


def as_method(name, dtype):
    def convert(self, memory_format=None):
        return self.to(dtype, memory_format=memory_format)
    convert.__name__, convert.__doc__ = name, f"This tensor as {dtype}."
    attach(convert)


for _name, _dtype in {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16",
                      "long": "int64", "int": "int32", "short": "int16",
                      "char": "int8", "byte": "uint8", "bool": "bool", "chalf": "complex32", "cfloat": "complex64",
                      "cdouble": "complex128"}.items():
    as_method(_name, dtypes.BY_NAME[_dtype])


@attach
def cpu(self, memory_format=None):
    """The tensor on the CPU: itself if it is there, else a copy."""
    return self.to(devices.cpu, memory_format=memory_format)


def device_of_type(kind: str, device):
    """A device of a type by its index, its name or itself; None: the current one.  RuntimeError for one of another
    type."""
    where = devices.device(kind, device) if device is None or type(device) is int else devices.device(device)
    if where.type != kind:
        raise RuntimeError(f"Invalid device, must be {kind} device")
    return where


cuda_device = functools.partial(device_of_type, "cuda")


def to_type(kind: str):
    """A method that copies to a device of a type.  RuntimeError for a device of another type, NoDeviceError where there
    is none."""
    def move(self, device=None, non_blocking=False, memory_format=None):
        return self.to(device_of_type(kind, device), non_blocking=non_blocking, memory_format=memory_format)

    move.__name__ = move.__qualname__ = kind
    move.__doc__ = f"A copy on a device of type {kind!r}; the tensor itself where it lies there."
    return move


attach(to_type("cuda"))


@attach
def pin_memory(self, device=None):
    """A copy in pinned memory, from which the accelerator copies asynchronously; the tensor itself if it is pinned, or
    if there is no such memory."""
    from .devices import Registry
    provider = Registry.of(Registry.present()) if device is None else devices.placed(device).provider
    if provider is None or self.is_pinned() or not self._rush_meta.device.provider.has_data:
        return self
    if not self._rush_meta.device.provider.on_host:
        raise RuntimeError(f"cannot pin '{self._rush_meta.device}' tensor, only dense CPU tensors can be pinned")
    memory = provider.pinned(self._rush_meta.numel * self.itemsize)
    if memory is None:
        return self
    made = wrap(borrowed(memory.address, self._rush_meta.numel * self.itemsize, memory), 0,
                Meta.of(self.shape, self.dtype, self._rush_meta.device), self.itemsize)
    return made.copy_(self.detach())


@attach
def is_pinned(self, device=None):
    """True if an accelerator copies from the tensor's memory asynchronously."""
    return self._rush_storage is not None and hasattr(self._rush_storage.owner, "pins")


@attach
def share_memory_(self):
    """Move the tensor to memory that is shared with child processes: writes of one process are visible to all. Returns
    the tensor.

    >>> import rushlight as rl
    >>> x = rl.zeros(2).share_memory_()
    >>> x.is_shared(), x[1:].is_shared()
    (True, True)
    """
    from .sharing import share
    if self._rush_meta.device.provider.on_host:
        share(self._rush_storage)
    return self


@attach
def is_shared(self):
    """True if other processes see the tensor's memory."""
    from .sharing import is_shared
    return is_shared(self._rush_storage)


@attach
def apply_(self, function):
    """Applies a Python function to every element, in place."""
    from .exchange import to_numpy
    flat = to_numpy(self)
    for index in np.ndindex(flat.shape):
        flat[index] = function(flat[index].item())
    return self


@attach
def map_(self, other, function):
    """Sets every element to ``function(it, the other's element)``, in place."""
    from .exchange import to_numpy
    mine, theirs = to_numpy(self), to_numpy(other.expand(tuple(self.shape)))
    for index, value in list(zip(np.ndindex(mine.shape), theirs.ravel())):
        mine[index] = function(mine[index].item(), value.item())
    return self


@attach
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """A copy of ``data``, by default in this tensor's dtype and on its device."""
    from .exchange import tensor
    return tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


@attach
def new(self, *args, size=None, device=None):
    """A tensor of this dtype: uninitialized with given sizes, of elements, or with the memory of a tensor or storage of
    this dtype. Raises TypeError for a tensor of another one, RuntimeError for a device of another type."""
    from .exchange import refuse_device, tensor
    from .legacy_constructors import construct
    refuse_device(self.device.type, device, args, "new of the form tensor.new(tensor, device=device)")
    where = device or self.device
    args = args if size is None else (Size(size),)
    if len(args) == 1 and isinstance(args[0], Tensor):
        if args[0].dtype is not self.dtype:
            raise TypeError(f"expected a tensor of {self.dtype}, but got one of {args[0].dtype}: convert it with to()")
        return alias(args[0].detach())
    if len(args) == 1 and isinstance(args[0], UntypedStorage):
        return tensor([], dtype=self.dtype, device=where).set_(args[0])
    if len(args) == 1 and hasattr(args[0], "untyped"):  # a typed storage
        if args[0].dtype is not self.dtype:
            raise RuntimeError(f"expected a storage of {self.dtype}, but got one of {args[0].dtype}")
        return tensor([], dtype=self.dtype, device=where).set_(args[0])
    return construct(args, self.dtype, where)


def _data(self):
    """The same memory without history, and with a separate version counter: writes through it are not detected."""
    out = self.detach() if self.__class__ is not Tensor and kind_of(self.__class__) & DISPATCH else alias(self)
    if out._rush_storage is not None:
        count_apart(out, UNCOUNTED if self.is_inference() else 0)
    return out


def may_stand_for(value: Tensor, other: Tensor) -> bool:
    """True if a tensor's memory can become another's: both have data, or neither has, in one layout."""
    return (value.layout is other.layout
            and value._rush_meta.device.provider.has_data is other._rush_meta.device.provider.has_data)


def _set_data(self, value):
    if not isinstance(value, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if self._rush_needs_grad and not value._rush_meta.dtype.is_inexact:
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    if not may_stand_for(value, self):
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type: "
            f"{self.layout} on {self.device} and {value.layout} on {value.device}")
    if value._rush_meta.dtype is not self._rush_meta.dtype or value._rush_meta.device is not self._rush_meta.device:
        self._rush_accumulator = None  # it accumulates gradients of the former dtype and device
    take_memory(self, value)
    Epoch.value += 1


def _keep_data(self):
    raise RuntimeError("Deleting data of a tensor is not allowed. Delete the tensor instead!")


Tensor.data = property(_data, _set_data, _keep_data)


@attach
def detach_(self):
    """Cuts this tensor off from the gradient, in place.  RuntimeError for a view: its base would still have the
    history."""
    if self._base is not None:
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    self._rush_grad_node, self._rush_output, self._rush_needs_grad = None, 0, 0
    return self


def unrecorded(gradient):
    """A gradient as a tensor that wants none itself: the same one."""
    return gradient.requires_grad_(False) if gradient.grad_fn is None else gradient.detach_()


@attach
def __iter__(self):
    if not self.dim():
        raise TypeError("iteration over a 0-d tensor")
    return iter(OPS["unbind"](self, 0))


@attach
def __reversed__(self):
    return OPS["flip"](self, 0) if self.dim() else self


def kept_as(kind, made: Tensor, requires_grad, attributes) -> Tensor:
    """A tensor as an instance of its class, with its user-defined attributes."""
    out = made if kind is Tensor else blank(kind)
    if out is not made:
        show(out, made)
    out._rush_needs_grad = requires_grad
    out.__dict__.update(attributes)
    return out


def rebuild(kind, array, dtype, requires_grad, attributes, turned=0, where="cpu"):
    """Rebuild a tensor from its pickled form."""
    from .exchange import seen_memory
    from .tensor import empty
    made = empty(array.shape, dtype, device=devices.cpu)
    if array.size:
        seen_memory(made, dtype.numpy)[...] = array
    made = made.to(where)
    made = alias(made, made._rush_meta.turning(turned))
    return kept_as(kind, made, requires_grad, attributes)


def rebuild_without_data(kind, dtype, size, strides, where, requires_grad, attributes):
    """Rebuild a tensor that has only metadata from its pickled form."""
    made = empty_of(Meta(size, strides, dtype, devices.placed(where)))
    return kept_as(kind, made, requires_grad, attributes)


def rebuild_wrapper(kind, dtype, size, strides, offset, layout, where, requires_grad, attributes):
    """Rebuild a tensor without memory, whose class answers operators, from its pickled form."""
    out = Tensor._make_wrapper_subclass(kind, size, strides=strides, storage_offset=offset, dtype=dtype, layout=layout,
                                        device=where, requires_grad=requires_grad)
    out.__dict__.update(attributes)
    return out


@attach
def __delitem__(self, key):
    raise TypeError("Tensor does not support deleting items: take those that are to stay, as in x[kept]")


@attach
def __reduce_ex__(self, protocol):
    from .exchange import seen_memory
    if "_wraps" in self.__dict__:  # its attributes have what it stands for
        meta = self._rush_meta
        return rebuild_wrapper, (self.__class__, meta.dtype, tuple(meta.shape), tuple(meta.strides), self._rush_offset,
                                 self.layout, str(meta.device), self._rush_needs_grad, copied_attributes(self))
    where = self._rush_meta.device
    if not where.provider.has_data:
        return rebuild_without_data, (self.__class__, self.dtype, tuple(self.shape), self.stride(), str(where),
                                      self._rush_needs_grad, copied_attributes(self))
    place = () if where.provider.on_host else (str(where),)
    held = alias(self, self._rush_meta.plain).cpu() if place else self
    return rebuild, (self.__class__, seen_memory(held, self.dtype.numpy).copy(), self._rush_meta.dtype,
                     self._rush_needs_grad,
                     copied_attributes(self), self._rush_meta.turned, *place)


class InProcess:
    """Members common to all storages: in memory of this process, of a device, or on the meta device."""

    _cdata = property(lambda self: id(self.tensor()._rush_storage))  # the same for storages that are one
    is_meta = property(lambda self: not self.device.provider.has_data)

    def with_data(self, error=NotImplementedError, text=NO_DATA):
        """Itself; an error if it is on the meta device."""
        if self.is_meta:
            raise error(text)
        return self

    def cpu(self):
        """The bytes in CPU memory: itself if they are there."""
        return self.with_data().to("cpu")

    def to(self, device, non_blocking=False):
        """The bytes on a device: itself where they are."""
        where = devices.placed(device)
        return self if where is self.untyped().device else self.__class__(self.untyped()
                                                                          .bytes.to(where, non_blocking=non_blocking))

    is_cuda = property(lambda self: self.tensor().is_cuda)

    def cuda(self, device=None, non_blocking=False):
        """The bytes on a GPU, the current one unless it is named: itself where they are."""
        return self.to(cuda_device(device), non_blocking=non_blocking)

    def get_device(self) -> int:
        """The index of the device; -1 for the CPU."""
        return self.tensor().get_device()

    def is_shared(self) -> bool:
        """True if other processes see this memory."""
        return self.tensor().is_shared()

    def is_pinned(self, device=None) -> bool:
        """True if a device copies from this memory without the CPU's help."""
        return self.tensor().is_pinned(device)

    def pin_memory(self, device=None):
        """The bytes in memory from which a device copies without waiting: itself where they are."""
        made = (bytes_of := self.untyped().bytes).pin_memory(device)
        return self if made is bytes_of else self.__class__(made)

    def share_memory_(self):
        """Moves the memory to where child processes see it, too."""
        self.with_data(RuntimeError, "_share_fd_: only available on CPU").tensor().share_memory_()
        return self

    def _write_file(self, file, is_real_file, save_size, element_size):
        """Writes the bytes to a file, after how many elements they are if ``save_size``."""
        from .exchange import values_of
        data = values_of(self.with_data().untyped().bytes).tobytes()
        file.write((len(data) // element_size).to_bytes(8, "little") + data if save_size else data)

    def _share_fd_cpu_(self):
        """Moves the memory to where other processes see it."""
        return self.share_memory_()

    _share_filename_cpu_ = _share_fd_cpu_


NOT_AVAILABLE = "Not available for 'meta' device type"


class StorageBase(InProcess):
    """The base class of storages. Raises RuntimeError if it is instantiated itself."""

    is_sparse = is_hpu = False

    def __new__(cls, *args, **kwargs):
        if cls is StorageBase:
            raise RuntimeError("Cannot directly construct StorageBase; subclass it and then construct that")
        return super().__new__(cls)

    def __init__(self, tensor=0, *, device=None):
        if isinstance(tensor, StorageBase):
            tensor = tensor._tensor
        if isinstance(tensor, (list, tuple)):
            from .exchange import tensor as made
            tensor = made(tensor, dtype=dtypes.uint8, device=device)
        self._tensor = empty((tensor,), dtypes.uint8, device=device) if isinstance(tensor, int) else tensor

    def tensor(self) -> Tensor:
        """A tensor over this memory."""
        return self._tensor

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0):
        """The first bytes of a file, read when they are looked at; writes reach the file only if ``shared``."""
        from .exchange import from_numpy
        return cls(from_numpy(np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,))))

    @classmethod
    def _new_shared(cls, size, *, device="cpu"):
        """A storage of ``size`` bytes that processes share."""
        return cls(size, device=device).share_memory_()

    @property
    def bytes(self) -> Tensor:
        """The bytes as a uint8 tensor over the same memory; writes to it are not counted for other tensors, as in
        PyTorch."""
        found = wrap(self._tensor._rush_storage, 0, Meta.of((self.nbytes(),), dtypes.uint8, self._tensor.device), 1)
        count_apart(found, 0)
        return found

    def data_ptr(self):
        """The address of the bytes; 0 on the meta device."""
        return 0 if self.is_meta else address(self.bytes)

    @property
    def _cdata(self) -> int:
        """A number that is the same for tensors over the same memory, and for them alone."""
        return id(self._tensor._rush_storage)

    def nbytes(self):
        return self._tensor._rush_storage.nbytes

    size = __len__ = nbytes
    device = property(lambda self: self._tensor.device)

    def __getitem__(self, index):
        found = self.with_data(text=NOT_AVAILABLE).bytes[index]
        if not isinstance(index, slice):
            return int(found)
        part = borrowed(address(found), found.numel(), found._rush_storage)
        return UntypedStorage(wrap(part, 0, Meta.of((part.nbytes,), dtypes.uint8, self.device), 1))

    def __setitem__(self, index, value):
        self.bytes[index] = value.bytes if isinstance(value, UntypedStorage) else value

    def fill_(self, value):
        """Every byte set to one value."""
        self.bytes.fill_(value)
        return self

    def copy_(self, source, non_blocking=False):
        """The bytes of another storage.  RuntimeError unless there are as many."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(f"copy_: size does not match, expected {self.nbytes()} bytes, but got {source.nbytes()}")
        self.bytes.copy_(source.with_data().bytes)
        return self

    def byteswap(self, dtype):
        """Reverse the bytes of each element of a dtype, of complex ones those of each part. Raises RuntimeError if the
        element size does not divide the number of bytes."""
        width = dtype.itemsize // (2 if dtype.is_complex else 1)
        if self.nbytes() % width:
            raise RuntimeError(f"the length of data is not a multiple of {width}")
        if width > 1:
            self.bytes.copy_(self.bytes.reshape(-1, width).flip(1).reshape(-1))

    def resizable(self) -> bool:
        """True if the bytes are the framework's own, not borrowed, and no NumPy array was made of them."""
        return not self._tensor._rush_storage.is_fixed

    def resize_(self, size: int):
        """Change the number of bytes, for every tensor over this memory; added ones are uninitialized. The previous
        memory lives as long as the storage, since tensors and arrays may still alias it. Raises RuntimeError unless it
        is ``resizable``."""
        storage = self._tensor._rush_storage
        if self.is_meta:
            storage.nbytes = size
            return self
        if not self.resizable():
            raise RuntimeError("Trying to resize storage that is not resizable")
        if size > storage.nbytes:
            old = self.device.provider.storage(self.device.index, size)
            copied_bytes(self.device, old.address, storage.address, storage.nbytes)
            storage.address, old.address = old.address, storage.address
            storage.kind, old.kind = old.kind, storage.kind
            old.owner, storage.owner = storage.owner, old.owner or old
            weights.show(storage)  # arrays and slices may still alias the previous memory
        storage.nbytes = size
        return self

    def clone(self):
        return UntypedStorage(self.bytes.clone())

    def element_size(self) -> int:
        return 1

    def untyped(self):
        return self

    def tolist(self) -> list:
        return self.with_data(text=NOT_AVAILABLE).bytes.tolist()

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and (other._tensor._rush_storage.address
                                                     == self._tensor._rush_storage.address)

    __hash__ = None

    def _fix_weakref(self):
        """Does nothing: weak references to storages are valid as long as the storage lives."""


class UntypedStorage(StorageBase):
    """The bytes under a tensor; a slice is a part of them, sharing memory."""


@attach
def untyped_storage(self):
    """The memory that the tensor shares with its views, as bytes: the same memory after the tensor is given another."""
    return UntypedStorage(self if self._rush_storage is None else alias(self))


def write_part(part, value):
    """Set real or imaginary parts of complex numbers to a tensor or a number."""
    part.copy_(value) if isinstance(value, Tensor) else part.fill_(value)


Tensor.real = property(lambda self: OPS["real"](self), lambda self, value: write_part(self.real, value))
Tensor.imag = property(lambda self: OPS["imag"](self), lambda self, value: write_part(self.imag, value))
