"""Conversion from and to Python numbers and lists, NumPy arrays, and DLPack."""
from __future__ import annotations

import array
import ctypes
import mmap
from types import FunctionType

import numpy as np

from . import devices, dtypes
from .dtypes import bool_, float32, float64, int32, int64
from .advice import warn
from .interpret import is_recording, top
from .lists import array_of, first_of, number, plain
from .meta import Meta, Size
from .narrow import narrow, widen
from .native import Tensor, mine, wrap
from .op import pinned
from .overriding import NOBODY, Dispatch, observed, of_mode, read_by_mode
from .tensor import attach, blank, borrowed, empty, give_out, place, resolved


LARGEST_STRIDE = 1 << 58  # in elements of up to 16 bytes


class Memory:
    """Keeps an object alive and shows a block of memory to NumPy."""

    def __init__(self, owner, interface):
        self.owner, self.__array_interface__ = owner, interface


@observed
def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares memory with an array.  TypeError for element types that tensors do not have."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    dtype = dtypes.FROM_NUMPY.get(array.dtype)
    if dtype is None:
        if dtypes.FROM_NUMPY.get(array.dtype.newbyteorder("=")) is not None:
            raise ValueError("given numpy array has byte order different from the native byte order. Conversion "
                             "between byte orders is currently not supported: give array.astype(array.dtype"
                             ".newbyteorder('='))")
        raise TypeError(
            f"can't convert np.ndarray of type {array.dtype}. The supported types are: "
            f"{', '.join(map(str, dtypes.FROM_NUMPY))}.")
    if any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently "
            "supported. (You can probably work around this by making a copy of your array  with array.copy().)")
    if any(s % array.itemsize for s in array.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate "
            "the memory.")
    if not array.flags.writeable:
        warn("The given NumPy array is not writable, but tensors are: writing into this one changes an array that is "
             "meant to stay as it is, or a copy of the array. "
             "Give a copy: array.copy().")
    strides = tuple(s // array.itemsize for s in array.strides)
    meta = Meta(tuple(array.shape), strides, dtype, devices.cpu)
    return wrap(borrowed(array.ctypes.data, meta.nbytes, array), 0, meta, meta.itemsize)


def own_array(array: np.ndarray) -> Tensor:
    """``from_numpy`` of an array without other references: its memory may be replaced by a larger block."""
    made = from_numpy(array)
    if made._rush_storage is not None:
        made._rush_storage.is_fixed = 0
    return made


def lend_array(tensor: Tensor) -> np.ndarray:
    """``to_numpy`` for users, who may keep the array: the memory is not resized afterwards."""
    array = to_numpy(tensor)
    if tensor._rush_storage is not None:
        tensor._rush_storage.is_fixed = 1
    return array


def to_numpy(tensor: Tensor, view=None) -> np.ndarray:
    """An array that shares memory with a tensor. Raises RuntimeError if the elements are not the stored values."""
    meta = tensor._rush_meta
    if meta.turned:
        bit, remedy = ("conjugate", "conj") if tensor.is_conj() else ("negative", "neg")
        raise RuntimeError(
            f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.resolve_{remedy}().numpy() instead.")
    if not meta.dtype.in_numpy or meta.dtype.scheme is not None:
        raise TypeError(
            f"Got unsupported ScalarType {dtypes.type_name(meta.dtype)}: NumPy has no such type; use "
            f".to(torch.{'complex64' if meta.dtype.is_complex else 'float32'}) or .view({meta.dtype.numpy.name}) first")
    if not meta.device.provider.has_data:
        raise TypeError("can't convert a tensor on the meta device to numpy: it has no data")
    return (view or view_memory)(tensor, meta.dtype.numpy)


class NoMemoryError(RuntimeError):
    """Elements are read of a tensor whose class answers operators."""


def view_memory(tensor: Tensor, element) -> np.ndarray:
    """The tensor's memory as an array, which keeps the storage alive and may be given to anybody.  TypeError where it
    is not the host's."""
    if tensor._rush_storage is not None:
        give_out(tensor)
    return seen_memory(tensor, element)


def seen_memory(tensor: Tensor, element) -> np.ndarray:
    """``view_memory`` for callers that drop the array at once, or write into it only if the tensor is new."""
    meta = tensor._rush_meta
    if not meta.device.provider.on_host:
        raise TypeError(
            f"can't convert {meta.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first.")
    if meta.numel == 0:
        return np.empty(meta.shape, element)
    if type(tensor) is not Tensor and "_wraps" in vars(tensor):
        raise NoMemoryError(
            f"{type(tensor).__name__} has no memory of its own to read: its class answers operators. Convert it to a "
            "plain tensor first.")
    interface = {"version": 3, "shape": tuple(meta.shape), "typestr": element.str, "data": (place(tensor), False),
                 "strides": byte_strides(meta)}
    return np.asarray(Memory(tensor._rush_storage, interface))


def byte_strides(meta: Meta) -> tuple[int, ...]:
    """Return the strides in bytes. The stride of a dimension of size 1 is unused: it may be any number of elements,
    also one whose bytes NumPy cannot count."""
    return tuple(s * meta.itemsize if n != 1 or s <= LARGEST_STRIDE else meta.itemsize
                 for n, s in zip(meta.shape, meta.strides))


def computed(array: np.ndarray, dtype=None) -> Tensor:
    """A NumPy result as a tensor on the preferred device: while an operator's body runs, that is the device of its
    tensors."""
    made = own_array(np.ascontiguousarray(array)) if dtype is None else from_array(array, dtype)
    where = devices.preferred()
    return made if made._rush_meta.device is where else made.to(where)


@attach
def numpy(self, *, force=False) -> np.ndarray:
    """The elements as an array that shares memory."""
    if mine.modes:
        return of_mode("numpy", self, force=force)
    if not force and self.requires_grad and is_recording():
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    return lend_array(resolved(self).cpu() if force else self)


@attach
def __array__(self, dtype=None, copy=None):
    if self.requires_grad and is_recording():
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    array = lend_array(self)
    return array if dtype is None else array.astype(dtype, copy=False)


def values_of(tensor: Tensor, view=view_memory) -> np.ndarray:
    """The elements as Python-convertible NumPy values (bfloat16 and float8 widened); those of a device are copied.
    ``view``: ``seen_memory`` for callers that drop the array at once."""
    if tensor._rush_storage is None:
        tensor = tensor.concrete()
    if not tensor._rush_meta.device.provider.on_host:
        tensor = tensor.detach().cpu()
    tensor, dtype = resolved(tensor), tensor._rush_meta.dtype
    if dtype.scheme is not None:
        return dtype.scheme.values(view(tensor, dtype.numpy))
    return to_numpy(tensor, view) if dtype.in_numpy else widen(view(tensor, dtype.numpy), dtype)


# dtypes whose scalars are read directly from memory
CELLS = {bool_: ctypes.c_bool, float32: ctypes.c_float, float64: ctypes.c_double, int64: ctypes.c_int64,
         int32: ctypes.c_int32}


@attach
def item(self):
    """The only element as a Python number."""
    if mine.modes:
        return of_mode("item", self)
    if self._rush_meta.numel != 1:
        raise RuntimeError(f"a Tensor with {self._rush_meta.numel} elements cannot be converted to Scalar")
    if mine.stack and (found := read_by_mode(self)) is not NOBODY:
        return found
    where = self._rush_meta.device
    if not where.provider.has_data:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    cell = CELLS.get(self._rush_meta.dtype) if type(self) is Tensor else None
    if cell is not None and self._rush_storage is not None and not self._rush_meta.turned:
        return (cell.from_address(place(self)).value if where.provider.on_host
                else where.provider.read(where.index, place(self), self._rush_meta.dtype))
    if type(self) is not Tensor and "_wraps" in vars(self):
        return Dispatch.read(item, (self,), {})
    return values_of(self, seen_memory).reshape(-1)[0].item()


@attach
def tolist(self):
    """The elements as nested lists of Python numbers."""
    if mine.modes:
        return of_mode("tolist", self)
    return values_of(self, seen_memory).tolist()


@attach
def __bool__(self):
    """True if the one element is not 0. Raises RuntimeError for tensors with more elements, or none."""
    if mine.modes:
        return of_mode("__bool__", self)
    if self._rush_meta.numel > 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    if self._rush_meta.numel == 0:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    return bool(self.item())


def conversion(self, kind):
    """``number``, with a warning where history is left behind."""
    if self._rush_needs_grad:
        warn(f"Converting a tensor with requires_grad=True to a Python {kind.__name__} loses its gradient: write "
             "detach() first if that is meant.")
    return number(self, kind)


@attach
def __int__(self):
    if mine.modes:
        return of_mode("__int__", self)
    return conversion(self, int)


@attach
def __float__(self):
    if mine.modes:
        return of_mode("__float__", self)
    return conversion(self, float)


@attach
def __complex__(self):
    if mine.modes:
        return of_mode("__complex__", self)
    return complex(self.item())


@attach
def __index__(self):
    if mine.modes:
        return of_mode("__index__", self)
    value = self.item() if self._rush_meta.numel == 1 else None
    if not isinstance(value, int):
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(value)


@attach
def __contains__(self, element):
    if mine.modes:
        return of_mode("__contains__", self, element)
    if isinstance(element, (Tensor, int, float, bool, complex)):
        return bool((self == element).any())
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


def held_by(storage, dtype) -> Tensor:
    """A storage as a 1-D tensor of a dtype. Raises RuntimeError for a storage of another dtype."""
    if getattr(storage, "dtype", dtype) is not dtype:
        raise RuntimeError(
            f"Expected a Storage of type {dtype} or an UntypedStorage, but got type {storage.dtype} for argument 1 "
            "'storage'")
    memory = storage.untyped().bytes
    return wrap(memory._rush_storage, 0, Meta.of((memory.numel() // dtype.itemsize,), dtype, memory.device),
                dtype.itemsize)


@observed
def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False, names=None) -> Tensor:
    """A tensor that copies ``data``: numbers, nested lists, an array or a tensor."""
    dtype = dtypes.meant(dtype)
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        raise TypeError(f"tensor(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
    if isinstance(data, Tensor):
        warn("To copy a tensor, it is recommended to write data.detach().clone(), with requires_grad_() if the copy "
             "is to have a gradient, instead of torch.tensor(data).")
        out = converted_copy(data.detach(), dtype)
    elif isinstance(data, (np.ndarray, np.generic)):
        if isinstance(data, np.generic) and dtype is not None:
            plain(data, dtype)  # rejects values that a dtype does not take
        out = converted_copy(own_array(np.array(data, copy=True)), dtype, shared=False)
    else:
        if hasattr(data, "__array__") and not isinstance(data, (list, tuple, int, float, bool, complex)):
            return tensor(np.asarray(data), dtype=dtype, device=device, requires_grad=requires_grad,
                          pin_memory=pin_memory)
        if hasattr(data, "untyped"):
            return tensor(held_by(data, dtype or dtypes.Defaults.floating).clone(), device=device,
                          requires_grad=requires_grad)
        if data is None or isinstance(data, (dict, set)):
            raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
        if isinstance(data, (str, bytes)):
            raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
        if not (isinstance(data, (list, tuple, int, float, bool, complex)) or hasattr(data, "__len__")):
            raise RuntimeError(
                f"Could not infer dtype of {type(data).__name__}: give numbers, sequences of them, arrays or tensors")
        if not isinstance(data, (list, tuple, int, float, bool, complex)):
            data = list(data)
        if isinstance(data, (list, tuple)) and data and isinstance(data[0], np.ndarray) and data[0].ndim:
            warn("Creating a tensor from a list of numpy.ndarrays is slow: make one array of them by numpy.array() "
                 "first.")
        if isinstance(first_of(data), str):
            raise ValueError("too many dimensions 'str'")  # its characters would be another one
        array, inferred = array_of(data, dtype)
        out = from_array(array, inferred)
    where = devices.placed(device) if device is not None else data.device if isinstance(
        data, Tensor) else devices.preferred()
    if out._rush_meta.device is not where:
        out = out.to(where)
    if pin_memory:
        out = pinned(out)
    if requires_grad:
        out.requires_grad = True
    return out


def refuse_device(wanted, device, args, form):
    """Raise RuntimeError if a legacy constructor is given a device of another type, or a device together with a
    tensor."""
    if device is not None and len(args) == 1 and isinstance(args[0], Tensor):
        raise RuntimeError(f"Legacy tensor {form} is not supported: write torch.tensor() or torch.as_tensor().")
    if device is not None and devices.device(device).type != wanted:
        raise RuntimeError(f"legacy constructor expects device type: {wanted} but device type: "
                           f"{devices.device(device).type} was passed")


def made_of(cls, *args, device=None):
    """The result of calling the class ``Tensor``, in older programs: an uninitialized tensor of the default dtype from
    sizes, or one of the numbers in a sequence; a tensor shares its memory. Raises TypeError for anything else,
    RuntimeError for a device that is not the CPU.

    >>> import rushlight as torch
    >>> torch.Tensor([1, 2]), torch.Tensor(2, 3).shape
    (tensor([1., 2.]), torch.Size([2, 3]))
    """
    refuse_device(devices.cpu.type, device, args, "constructor of the form torch.Tensor(tensor, device=device)")
    first = args[0] if args else 0
    if len(args) == 1 and isinstance(first, Tensor):
        made = first.detach()
    else:
        from .legacy_constructors import construct
        made = construct(args, dtypes.Defaults.floating, device)
    return made if cls is Tensor else Tensor._make_subclass(cls, made)


def filled_in(self, *args, **names):
    """Calling the class without arguments makes a tensor without elements; one that is made already stays as it is."""
    if self._rush_meta is None:
        made = empty((0,), dtypes.Defaults.floating)
        self._rush_storage, self._rush_offset = made._rush_storage, made._rush_offset
        self._rush_meta, self.itemsize = made._rush_meta, made.itemsize


@attach
def __array_wrap__(self, array, context=None, return_scalar=False):
    """Convert the result of a NumPy function of a tensor to a tensor."""
    return from_numpy(np.asarray(array)) if np.asarray(array).dtype in dtypes.FROM_NUMPY else array


Tensor._rush_construct = classmethod(made_of)
if not isinstance(blank, FunctionType):  # as plain Python the hot path itself calls the class
    Tensor.__init__ = filled_in


def from_array(array: np.ndarray, dtype) -> Tensor:
    """A fresh tensor of ``dtype`` with an array's values."""
    interpreter = top()
    return filled_from(array, dtype) if interpreter is None else interpreter.constant(lambda: filled_from(array, dtype))


def filled_from(array: np.ndarray, dtype) -> Tensor:
    out = empty(array.shape, dtype, device=devices.cpu)
    if array.size:
        if not dtype.in_numpy:
            wide = np.complex64 if dtype.is_complex else np.float32
            seen_memory(out, dtype.numpy)[...] = narrow(array.astype(wide), dtype)
        else:
            with np.errstate(all="ignore"):
                if array.dtype.kind in "if" and dtype.category == dtypes.INTEGER and not (array.dtype.kind == "i"
                                                                                          and dtype is int64):
                    dtypes.check_range(array.min().item(), array.max().item(), dtype)
                seen_memory(out, dtype.numpy)[
                    ...] = array.real if array.dtype.kind == "c" and not dtype.is_complex else array
    return out


def converted_copy(source: Tensor, dtype, shared=True) -> Tensor:
    if dtype is not None and dtype is not source.dtype:
        return source.to(dtype)
    return source.clone() if shared else source


@observed
def as_tensor(data, dtype=None, device=None) -> Tensor:
    """A tensor of ``data``, sharing memory where it can."""
    from .convert import UntypedStorage

    if isinstance(data, UntypedStorage):
        return data.bytes if dtype in (None, dtypes.uint8) else data.bytes.view(dtype)
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype)
    if isinstance(data, np.ndarray):
        return from_numpy(data).to(device=devices.placed(device), dtype=dtype)
    if (found := getattr(data, "__cuda_array_interface__", None)) is not None:
        from .dlpack import of_interface
        return of_interface(data, found).to(device=device, dtype=dtype)
    return tensor(data, dtype=dtype, device=device)


def shown(obj, dtype):
    """A tensor of the memory that an object shows: of a tensor, an array, a DLPack capsule or a buffer; else None."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        return from_numpy(obj)
    if type(obj).__name__ == "PyCapsule":
        return from_dlpack(obj)
    if isinstance(obj, (bytes, bytearray, memoryview, array.array, mmap.mmap)):
        return frombuffer(obj, dtype=dtype or dtypes.Defaults.floating)
    return None


@observed
def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None) -> Tensor:
    """A tensor of ``obj``: with ``copy`` True never sharing memory, with False always (else ValueError), with None if
    possible.

    >>> import numpy, rushlight as torch
    >>> numbers = numpy.zeros(2)
    >>> torch.asarray(numbers, copy=True).add_(1).sum(), numbers
    (tensor(2., dtype=torch.float64), array([0., 0.]))
    """
    given = shown(obj, dtype)
    made = as_tensor(obj if given is None else given, dtype=dtype, device=device)
    shared = given is not None and made._rush_storage is given._rush_storage
    if copy and shared:
        made = made.clone()
    if copy is False and not shared:
        if given is None:
            raise ValueError(f"can't alias arbitrary sequence into a tensor: a {type(obj).__name__} has no memory that "
                             "can be shared")
        kind = "dtype" if made.device == given.device else "device"
        before, after = (dtypes.type_name(t.dtype) if kind == "dtype" else str(t.device) for t in (given, made))
        raise ValueError(f"can't alias tensor with dtype '{before}' into dtype '{after}'" if kind == "dtype" else
                         f"can't alias tensor from device '{before}' to '{after}'")
    return made if requires_grad in (None, made.requires_grad) else made.detach().requires_grad_(requires_grad)


@observed
@devices.placing
def scalar_tensor(value, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """A 0-dim tensor of the default floating dtype; strided, whatever ``layout`` says."""
    return tensor(value, dtype=dtype or dtypes.Defaults.floating, device=device, requires_grad=requires_grad,
                  pin_memory=pin_memory)


@observed
def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False) -> Tensor:
    """A 1-dim tensor that shares memory with a buffer."""
    try:
        size = memoryview(buffer).nbytes
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    if size == 0 or count == 0:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) minus 1")
    if count < 0 and (size - offset) % dtype.itemsize:
        raise ValueError(
            f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({dtype.itemsize})")
    count = (size - offset) // dtype.itemsize if count < 0 else count
    if offset + count * dtype.itemsize > size:
        raise ValueError(
            f"requested buffer length ({count} * {dtype.itemsize} bytes) after offset ({offset} bytes) must not be "
            f"greater than actual buffer length ({size} bytes)")
    if memoryview(buffer).readonly:
        warn("The given buffer is not writable, but tensors are: writing into this one changes memory that is meant "
             "to stay as it is. Give a copy: bytearray(buffer).")
    array = np.frombuffer(buffer, np.uint8)
    meta = Meta.of((count,), dtype, devices.cpu)
    out = wrap(borrowed(array.ctypes.data + offset, meta.nbytes, array), 0, meta, meta.itemsize)
    return out.requires_grad_() if requires_grad else out


@attach
def __dlpack__(self, stream=None, **kwargs):
    if self._rush_needs_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self._rush_meta.turned:
        raise BufferError(
            f"Can't export tensors with the {'conjugate' if self.is_conj() else 'negative'} bit set: give a clone()")
    provider = self._rush_meta.device.provider
    if (self.dtype is dtypes.bfloat16 if provider.on_host
            else provider.dlpack != EXTENSION):  # whose addresses other libraries cannot interpret
        from .dlpack import exported
        return exported(self, stream)
    return to_numpy(self).__dlpack__()


@attach
def __dlpack_device__(self):
    """DLPack's (type of device, index)."""
    where = self._rush_meta.device
    return (where.provider.dlpack, where.index or 0)


@attach
@property
def __cuda_array_interface__(self) -> dict:
    """The interface by which libraries for GPUs read each other's arrays.  AttributeError for tensors elsewhere."""
    from .dlpack import interface_of
    return interface_of(self)


EXTENSION = 12  # DLPack's device type for devices without one of their own
HOST = 1, 3  # DLPack's device types in host memory: the CPU, and CUDA's pinned memory


class Capsule:
    """A capsule over memory of the CPU, as NumPy takes it."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **kwargs):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


def from_dlpack(ext_tensor, *, device=None, copy=None) -> Tensor:
    """A tensor that shares memory with any object that supports DLPack, or with a capsule: on ``device``, and as a copy
    if ``copy`` is True. Raises BufferError if it is on another device and ``copy`` is False."""
    found = taken_over(ext_tensor)
    elsewhere = device is not None and devices.device(device) != found.device
    if elsewhere and (copy is False or not devices.device(device).provider.has_data):
        raise BufferError(f"cannot take a tensor of DLPack from {found.device} to {device}"
                          + " without a copy" * (copy is False))
    return found.to(device, copy=bool(copy)) if elsewhere or copy else found


def taken_over(source) -> Tensor:
    """A tensor that shares memory with an object that supports DLPack."""
    from .dlpack import place_of
    number, index = source.__dlpack_device__() if hasattr(source, "__dlpack_device__") else place_of(source)
    if number not in HOST:
        from .dlpack import imported
        return imported(source, int(number), int(index))
    if not isinstance(source, np.ndarray):
        from .dlpack import holds_pairs_of_bytes, taken
        capsule = source.__dlpack__() if hasattr(source, "__dlpack__") else source
        if holds_pairs_of_bytes(capsule):
            return taken(capsule, devices.cpu, int(number), int(index))
        source = Capsule(capsule)
    array = np.from_dlpack(source)
    array = array if array.flags.writeable else np.asarray(Memory(array, {**array.__array_interface__,
                                                                          "data": (array.ctypes.data, False)}))
    return from_numpy(array)
