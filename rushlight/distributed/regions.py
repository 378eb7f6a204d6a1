"""Tensors as dense memory that engines read and write."""
from __future__ import annotations

from .._src.autograd.mode import no_grad
from .._src.core.native import counter
from .._src.core.op import OPS
from .._src.core.tensor import address
from .engine import Region
from .kernels import TYPES

REAL = {"complex64": ("float32", 4), "complex128": ("float64", 8)}


def dense(tensor, on_host: bool = True):
    """Return the tensor itself if it is contiguous, else a contiguous copy; with ``on_host`` in memory that the host
    reads.  RuntimeError for a meta tensor."""
    meta = tensor._rush_meta
    if not meta.device.provider.has_data:
        raise RuntimeError(f"No backend type associated with device type {tensor.device.type}")
    if tensor.is_sparse or tensor.is_nested:
        raise RuntimeError(
            "collectives take dense tensors: a sparse or nested one goes by its parts (values(), offsets())")
    if on_host and not meta.device.provider.on_host:
        return OPS["contiguous"](tensor.detach().cpu().resolve_conj().resolve_neg())
    if meta.contiguous and not meta.turned:
        return tensor
    return OPS["contiguous"](tensor.detach().resolve_conj().resolve_neg())


def region(tensor) -> Region:
    """The memory of a dense tensor, to be copied."""
    return Region(address(tensor), tensor.numel() * tensor.itemsize, tensor.dtype.name, tensor.itemsize)


def reducible(tensor) -> Region:
    """Return the memory of a dense tensor, as a reduction sees it: complex numbers are pairs of real ones.
    RuntimeError for a dtype that has no sum."""
    name, itemsize = REAL.get(tensor.dtype.name, (tensor.dtype.name, tensor.itemsize))
    if name not in TYPES:
        raise RuntimeError(f"Invalid scalar type: {tensor.dtype} is stored, not computed with")
    return Region(address(tensor), tensor.numel() * tensor.itemsize, name, itemsize)


def touched(tensor):
    """Bump a tensor's version: tensors saved for backward are out of date."""
    if counter(tensor).version >= 0:
        counter(tensor).version += 1
    tensor._rush_storage.writes += 1


def bring_back(target, source):
    """Copy the result of a collective in a dense copy back into its tensor."""
    if source._rush_storage is not target._rush_storage:
        with no_grad():
            OPS["copy_"](target, source)
