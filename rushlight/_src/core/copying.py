"""Copies of tensors by ``copy`` and ``deepcopy``, with user-defined attributes."""
from __future__ import annotations

import copy
import copyreg
import ctypes

from . import devices, dtypes
from .interpret import recording
from .meta import span
from .naming import is_own
from .native import Tensor, wrap
from .op import OPS
from .tensor import alias, attach, blank, empty, show


def copied_memory(tensor: Tensor, memo: dict):
    """(storage, offset, Meta) of a deep copy: tensors that share memory share that of their copies, too."""
    storage = tensor._rush_storage
    if (storage is None or tensor._rush_meta.turned or not tensor._rush_meta.device.provider.on_host
            or tensor._rush_offset + span(tensor._rush_meta.shape, tensor._rush_meta.strides)
            > storage.nbytes // tensor.itemsize):
        with recording(False):
            copied = OPS["clone"](tensor)
        return copied._rush_storage, copied._rush_offset, copied._rush_meta
    found = memo.get(id(storage))
    if found is None:
        found = memo[id(storage)] = empty((storage.nbytes,), dtypes.uint8, device=devices.cpu)._rush_storage
        ctypes.memmove(found.address, storage.address, storage.nbytes)
        memo.setdefault(id(memo), []).append(storage)  # as copy does: a live object keeps its id
    return found, tensor._rush_offset, tensor._rush_meta


def slots_of(tensor) -> dict:
    """The values of the slots that a user's subclass declares."""
    kind = tensor.__class__
    return {} if is_own(kind) else {name: getattr(tensor, name)
                                                               for name in copyreg._slotnames(kind)
                                                               if hasattr(tensor, name)}


# attributes that copies do not have: they belong to one place in the graph
OWN = ("_rush_post_accumulate_hooks", "_rush_gradient_hook", "_rush_views")


def copied_attributes(tensor) -> dict:
    """Return the attributes of a tensor that copies and pickles have, too."""
    return {name: value for name, value in tensor.__dict__.items() if name not in OWN}


@attach
def __deepcopy__(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    if self._rush_grad_node is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. "
            "If you were "
            "attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage")
    storage, offset, meta = copied_memory(self, memo)
    out = wrap(storage, offset, meta, meta.itemsize)
    if self.__class__ is not Tensor:
        out = blank(self.__class__)
        out._rush_storage, out._rush_offset, out._rush_meta, out.itemsize = storage, offset, meta, meta.itemsize
    out._rush_needs_grad = self._rush_needs_grad
    memo[id(self)] = out  # attributes may lead back to it
    out.__dict__.update(copy.deepcopy(copied_attributes(self), memo))
    for name, value in slots_of(self).items():
        setattr(out, name, copy.deepcopy(value, memo))
    if self._rush_gradient is not None:
        out._rush_gradient = __deepcopy__(self._rush_gradient, memo)
    return out


@attach
def __copy__(self):
    """Another tensor over the same memory, a leaf with the same attributes and without a gradient of its own yet."""
    out = alias(self) if self.__class__ is Tensor else blank(self.__class__)
    if self.__class__ is not Tensor:
        show(out, self)
    out._rush_needs_grad = self._rush_needs_grad
    for name, value in slots_of(self).items():
        setattr(out, name, value)
    out.__dict__.update(copied_attributes(self))
    return out
