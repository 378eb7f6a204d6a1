"""Memory of devices given to other libraries, and taken from them, without a copy: DLPack, and the interface of arrays
that libraries for GPUs have.  Source: dlpack.h of DLPack 0.8; Numba's CUDA array interface, version 3.
"""
from __future__ import annotations

import ctypes

import numpy as np

from . import dtypes
from .devices import Registry, device, provided
from .meta import Meta
from .native import Tensor, wrap
from .tensor import borrowed

WHOLE, UNSIGNED, FLOAT, BFLOAT, COMPLEX, TRUTH = 0, 1, 2, 4, 5, 6  # codes of types
NAMES = {2: "cuda", 8: "mps", 10: "cuda", 14: "xpu"}  # types of devices
NAME, USED = b"dltensor", b"used_dltensor"
FIRST_STREAM, NO_STREAM = 1, -1  # of a consumer that names none; of one that keeps order itself
LARGEST, SOMEWHERE = 16, 4096  # bytes of an element; address of memory without elements, for NumPy
PAIR_OF_BYTES = "<V2"  # how arrays name bfloat16, as ml_dtypes does


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]


class Kind(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32), ("kind", Kind),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    """A DLManagedTensor."""


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [("array", Array), ("context", ctypes.c_void_p), ("deleter", DELETER)]
_api = ctypes.pythonapi
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_SetName", _api))
_api.Py_IncRef(ctypes.py_object(USED))  # renamed capsules point to these characters, and may outlive this module


class Keeper:
    """Memory as NumPy sees it, which lives as long as an array of it: the tensor itself may be given other memory."""

    def __init__(self, tensor: Tensor, address: int):
        size = tensor.itemsize
        self.storage, self.__array_interface__ = tensor._rush_storage, {
            "version": 3, "shape": tuple(tensor.shape), "strides": tuple(size * s for s in tensor.stride()),
            "typestr": f"<c{size}" if size == LARGEST else f"<u{size}", "data": (address, False)}


def kind_of(dtype) -> Kind:
    """The type of a dtype's elements.  BufferError for one that DLPack has not."""
    code = (BFLOAT if dtype is dtypes.bfloat16 else COMPLEX if dtype.is_complex else FLOAT if dtype.is_inexact
            else TRUTH if dtype is dtypes.bool_ else UNSIGNED if dtype.name.startswith("u") else WHOLE)
    if dtype.is_inexact and dtype.itemsize == 1:
        raise BufferError(f"{dtype} is not supported by dlpack")
    return Kind(code, 8 * dtype.itemsize, 1)


def dtype_of(kind: Kind):
    """The dtype of elements.  BufferError where there is none."""
    names = {WHOLE: "int", UNSIGNED: "uint", FLOAT: "float", BFLOAT: "bfloat", COMPLEX: "complex"}
    name = "bool" if kind.code == TRUTH else f"{names.get(kind.code)}{kind.bits}"
    if kind.lanes != 1 or name not in dtypes.BY_NAME:
        raise BufferError(f"there is no dtype for elements of DLPack's type {kind.code} with {kind.bits} bits in "
                          f"{kind.lanes} lanes")
    return dtypes.BY_NAME[name]


def exported(tensor: Tensor, stream):
    """A capsule with a tensor, whose memory the consumer's stream may read once pending work is done. NumPy makes it:
    capsules are destroyed at any moment, also while an exception propagates, when no Python of Rushlight may run."""
    where = tensor.device
    if stream != NO_STREAM and not where.provider.on_host:
        where.provider.hand_over(where.index, 0 if stream in (None, FIRST_STREAM) else stream)
    kind, address = kind_of(tensor.dtype), tensor.data_ptr()
    capsule = np.asarray(Keeper(tensor, address or SOMEWHERE)).__dlpack__()
    array = ctypes.cast(_pointer(id(capsule), NAME), ctypes.POINTER(Managed)).contents.array
    array.data, array.kind, array.device = address, kind, Device(where.provider.dlpack, where.index or 0)
    return capsule


class Taken:
    """A tensor of another library, kept alive for Rushlight."""

    def __init__(self, managed):
        self.managed = managed

    def __del__(self):
        if self.managed.contents.deleter:
            self.managed.contents.deleter(self.managed)


def provider_of(number: int):
    """The provider of DLPack's type of device.  BufferError where there is none."""
    kind = NAMES.get(number, Registry.present())
    found = provided(kind) if kind else None
    if found is not None and found.dlpack == number:
        return found
    raise BufferError(f"Unsupported device_type {number}: no device of this kind is here")


def imported(source, number: int, index: int) -> Tensor:
    """A tensor that shares memory with an object on DLPack's device (number, index)."""
    provider = provider_of(number)
    current = provider.streams(index).current()
    capsule = source.__dlpack__(stream=current or FIRST_STREAM) if hasattr(source, "__dlpack__") else source
    return taken(capsule, device(provider.type, index), number, index)


def place_of(capsule) -> tuple:
    """DLPack's device (number, index) of a capsule's contents; the host's if it is not a valid capsule."""
    if not _valid(id(capsule), NAME):
        return 1, 0
    where = ctypes.cast(_pointer(id(capsule), NAME), ctypes.POINTER(Managed)).contents.array.device
    return where.type, where.index


def holds_pairs_of_bytes(capsule) -> bool:
    """True if a capsule holds bfloat16, for which NumPy has no name."""
    if not _valid(id(capsule), NAME):
        return False
    return ctypes.cast(_pointer(id(capsule), NAME), ctypes.POINTER(Managed)).contents.array.kind.code == BFLOAT


def taken(capsule, where, number: int, index: int) -> Tensor:
    """A tensor on a device over the memory of a capsule. Raises RuntimeError if the capsule was consumed before."""
    if not _valid(id(capsule), NAME):
        raise RuntimeError("from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only "
                           "once, so you might have already constructed a tensor from it once.")
    managed = ctypes.cast(_pointer(id(capsule), NAME), ctypes.POINTER(Managed))
    array = managed.contents.array
    if (array.device.type, array.device.index) != (number, index):
        raise BufferError("from_dlpack(): the capsule's device differs from the one that __dlpack_device__ reports")
    dtype, shape = dtype_of(array.kind), tuple(array.shape[:array.ndim])
    strides = tuple(array.strides[:array.ndim]) if array.strides else None
    _rename(id(capsule), USED)
    return over(where, (array.data or 0) + array.offset, shape, strides, dtype, Taken(managed))


def over(where, address: int, shape, strides, dtype, owner) -> Tensor:
    """A tensor over memory of a device that another library keeps."""
    meta = Meta.of(shape, dtype, where) if strides is None else Meta(shape, strides, dtype, where)
    nbytes = (sum((n - 1) * s for n, s in zip(meta.shape, meta.strides)) + 1) * dtype.itemsize if meta.numel else 0
    return wrap(borrowed(address, nbytes, owner), 0, meta, dtype.itemsize)


def interface_of(self: Tensor) -> dict:
    """A tensor's ``__cuda_array_interface__``."""
    if not self.device.provider.has_array_interface:
        raise AttributeError(f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} If CUDA data "
                             "is required use tensor.cuda() to copy tensor to device memory.")
    if self.requires_grad:
        raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't "
                           "required, use var.detach() to get Variable that doesn't require grad.")
    if self.dtype is not dtypes.bfloat16 and not self.dtype.in_numpy:
        raise TypeError(f"{self.dtype} is not supported by __cuda_array_interface__: NumPy has no name for it")
    strides = None if self.is_contiguous() else tuple(s * self.itemsize for s in self.stride())
    typestr = PAIR_OF_BYTES if self.dtype is dtypes.bfloat16 else np.dtype(self.dtype.numpy).str
    return {"typestr": typestr, "shape": tuple(self.shape), "strides": strides,
            "data": (self.data_ptr() if self.numel() else 0, False), "version": 2}


def of_interface(source, found: dict) -> Tensor:
    """A tensor over an array that has ``__cuda_array_interface__``."""
    provider = provided("cuda")
    if provider is None:
        raise RuntimeError("an array of a GPU was given, and there is no GPU here")
    if found.get("mask") is not None:
        raise TypeError("arrays with masks cannot be tensors")
    typestr = found["typestr"]
    dtype = dtypes.bfloat16 if typestr == PAIR_OF_BYTES else dtypes.FROM_NUMPY.get(np.dtype(typestr))
    if dtype is None:
        raise TypeError(f"no tensor has elements of type {typestr!r}")
    strides = found.get("strides")
    if strides is not None:
        if any(s % dtype.itemsize for s in strides):
            raise ValueError("given array strides not a multiple of the element byte size. Make a copy of the array to "
                             "reallocate the memory.")
        strides = tuple(s // dtype.itemsize for s in strides)
    stream = found.get("stream")
    index = provider.device_of(found["data"][0])
    if stream is not None:
        provider.take_over(index, 0 if stream == FIRST_STREAM else stream)
    return over(device(provider.type, index), found["data"][0], tuple(found["shape"]), strides, dtype, source)
