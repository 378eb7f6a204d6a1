"""Top-level functions that are not operators."""
from __future__ import annotations

from .autograd.mode import (enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad,
                            set_grad_enabled)
from .core import devices, dtypes
from .core.epoch import changed
from .core.convert import InProcess, may_stand_for
from .core.meta import Meta
from .core.native import Tensor, wrap
from .core.op import OPS, forget
from .core.overriding import NOBODY, answered, kind_of, overridable
from .ops.promotion import result_dtype

__all__ = ["enable_grad", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
           "set_grad_enabled", "is_tensor", "is_floating_point",
           "is_complex", "numel", "get_default_dtype", "set_default_dtype", "get_default_device", "set_default_device",
           "result_type", "promote_types", "can_cast",
           "is_nonzero", "is_storage", "pi", "e", "inf", "nan", "broadcast_shapes", "is_same_size", "typename",
           "is_conj", "is_neg",
           "is_signed", "is_inference", "get_device", "newaxis", "_has_compatible_shallow_copy_type"]
from math import e, inf, nan, pi  # noqa: E402


def is_tensor(obj) -> bool:
    """True if an object is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj) -> bool:
    """True if an object is a storage."""
    from .core.convert import UntypedStorage
    return isinstance(obj, UntypedStorage)


@overridable
def is_floating_point(input) -> bool:
    """True if a tensor has a floating-point dtype."""
    return input.is_floating_point()


@overridable
def is_complex(input) -> bool:
    """True if a tensor has a complex dtype."""
    return input.is_complex()


@overridable
def is_conj(input) -> bool:
    """True if a tensor has the conj bit: its elements are the conjugates of the stored values."""
    return input.is_conj()


@overridable
def is_neg(input) -> bool:
    """True if a tensor has the neg bit: its elements are the negatives of the stored values."""
    return input.is_neg()


newaxis = None  # an index that inserts a dimension


@overridable
def is_signed(input) -> bool:
    """True if a tensor's dtype is signed."""
    return input.is_signed()


@overridable
def is_inference(input) -> bool:
    """True if a tensor was made in inference mode."""
    return input.is_inference()


@overridable
def get_device(input) -> int:
    """Index of a tensor's device; -1 for the CPU."""
    return input.get_device()


@overridable
def numel(input) -> int:
    """Number of elements."""
    return input.numel()


@overridable
def is_nonzero(input) -> bool:
    """Truth value of a tensor with one element."""
    return bool(input)


@overridable
def is_same_size(input, other) -> bool:
    """True if two tensors have the same shape."""
    return tuple(input.shape) == tuple(other.shape)


def _has_compatible_shallow_copy_type(input, from_) -> bool:
    """True if ``input.data`` can become another tensor's: both are plain tensors of one layout, both or neither on the
    meta device, or a subclass allows it."""
    found = answered(_has_compatible_shallow_copy_type, (input, from_), {})
    return found if found is not NOBODY else (kind_of(type(input)) == kind_of(type(from_))
                                              and may_stand_for(from_, input))


def typename(obj) -> str:
    """Type of a tensor in the format of ``Tensor.type``; for a class or function its name; else the name of the class.

    >>> typename(3), typename(dict)
    ('int', 'dict')
    """
    if isinstance(obj, Tensor):
        return obj.type()
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    return named.__qualname__ if named.__module__ in (None, "builtins") else f"{named.__module__}.{named.__qualname__}"


def get_default_dtype():
    """The dtype of Python floats."""
    return dtypes.Defaults.floating


def set_default_dtype(d):
    """Set the dtype of Python floats; plans made under another default are dropped."""
    if not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, not {d}")
    dtypes.Defaults.floating = d
    changed(dtypes.Defaults)
    forget()


def get_default_device():
    """Default device of factory functions."""
    return devices.preferred()


def set_default_device(device):
    """Set the default device of factory functions."""
    devices.prefer(devices.cpu if device is None else devices.placed(device))


def result_type(tensor1, tensor2):
    """Return the dtype to which two operands are promoted."""
    return result_dtype(tensor1, tensor2)


def promote_types(type1, type2):
    """Return the smallest dtype that represents both.  TypeError for anything but a dtype or a type of Python numbers.

    >>> promote_types(float, dtypes.int32)
    torch.float64
    """
    return dtypes.promote(dtypes.named(type1, "promote_types", "type1"), dtypes.named(type2, "promote_types", "type2"))


def can_cast(from_, to):
    """True if results of a dtype may be written into tensors of another: the category must not decrease.  TypeError as
    ``promote_types``.

    >>> can_cast(int, dtypes.float32), can_cast(float, dtypes.int64)
    (True, False)
    """
    return dtypes.can_cast(dtypes.named(from_, "can_cast", "from_"), dtypes.named(to, "can_cast", "to"))


def broadcast_shapes(*shapes):
    """The shape that shapes broadcast to."""
    from .core.meta import Size, broadcast
    sizes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    if any(size < 0 for shape in sizes for size in shape):
        raise ValueError(f"Attempting to broadcast a dimension with negative length! Got {shapes}")
    return Size(broadcast(*sizes))


def _storage(self):
    """Storage of a tensor, with its dtype.  Deprecated: use ``untyped_storage()``."""
    from ..storage import storage
    return storage(self)


def _storage_type(self):
    """The class of the storage of this tensor's elements."""
    from .. import storage
    return getattr(storage, storage._dtype_to_storage_type_map()[self.dtype])


def _typed_storage(self):
    """``storage()`` without a warning."""
    from .. import storage
    return storage._typed_storage(self)


Tensor.storage, Tensor.storage_type, Tensor._typed_storage = _storage, _storage_type, _typed_storage


def _set(self, source=None, storage_offset=0, size=None, stride=None):
    """Take over the storage of another tensor, or a storage: all of it as a vector, or sizes and strides from an
    offset."""
    if isinstance(source, InProcess):
        dtype = getattr(source, "dtype", self.dtype)
        if dtype is not self.dtype:
            raise RuntimeError(
                f"Expected a Storage of type {self.dtype} or an UntypedStorage, but got type {dtype} for argument 1 "
                "'storage'")
        room = source.nbytes() // dtype.itemsize
        size = (room - storage_offset,) if size is None else size
        source = wrap(source.tensor()._rush_storage, 0, Meta.of((room,), dtype, source.device), dtype.itemsize)
    return OPS["set_"](self, source, storage_offset, size, stride)


Tensor.set_ = _set
