"""Copies of tensors between devices, and of their gradients in the backward pass."""
from __future__ import annotations

from ..core.devices import cpu, device
from ..core.interpret import recording, top
from ..core.meta import Meta, span
from ..core.native import Tensor, sharing, weights, wrap
from ..core.native.memory import copy_bytes
from ..core.op import OPS
from ..core.tensor import borrowed, empty_of, needs_gradient, place, resolved
from .function import Function


def moved(tensor: Tensor, where: device, non_blocking=False) -> Tensor:
    """Copy a tensor to another device, with a gradient that is copied back.  With ``non_blocking`` the host continues
    during copies of memory that it may not touch: that of a device, or pinned memory.  NotImplementedError for a meta
    tensor."""
    interpreter = top()
    if interpreter is not None:
        return interpreter.moved(tensor, where)
    if needs_gradient(tensor):
        return ToCopy.apply(tensor, where, non_blocking)
    return copied(tensor, where, non_blocking)


class ToCopy(Function):
    """``moved``, with its gradient."""

    @staticmethod
    def forward(ctx, tensor, where, non_blocking):
        ctx.where = tensor.device
        return copied(tensor, where, non_blocking)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.to(ctx.where), None, None


def is_dense(meta: Meta) -> bool:
    """True if the elements fill the memory between the first and the last."""
    return span(meta.shape, meta.strides) == meta.numel


def copied(tensor: Tensor, where: device, non_blocking: bool) -> Tensor:
    """A copy on another device, without history."""
    with recording(False):
        source = resolved(tensor)
        if not is_dense(source._rush_meta):
            source = OPS["clone"](source)
    meta = Meta(tuple(source.shape), source._rush_meta.strides, source.dtype, where)
    made = pinned(meta, source.device) if non_blocking and where.provider.on_host else empty_of(meta)
    transport(made, source, non_blocking)
    return made


def pinned(meta: Meta, beside: device) -> Tensor:
    """Return a tensor in pinned memory of the host, from which a device copies asynchronously, if it has any."""
    memory = beside.provider.pinned(meta.nbytes)
    return empty_of(meta) if memory is None else wrap(borrowed(memory.address, meta.nbytes, memory), 0, meta,
                                                      meta.itemsize)


def transport(target: Tensor, source: Tensor, non_blocking: bool):
    """Copy the bytes of a dense tensor into one with the same strides."""
    nbytes, to, of = source._rush_meta.numel * source.itemsize, target._rush_meta.device, source._rush_meta.device
    if not nbytes:
        return
    here, there = place(source), place(target)
    if of is to:
        of.provider.copy(of.index, there, here, nbytes)
    elif of.provider.on_host:
        to.provider.upload(to.index, there, here, nbytes, non_blocking and source.is_pinned())
    elif to.provider.on_host:
        of.provider.download(of.index, there, here, nbytes, non_blocking and target.is_pinned())
    elif of.provider is to.provider:
        of.provider.peer(to.index, there, of.index, here, nbytes, non_blocking)
    else:
        transport(target, copied(source, cpu, False), False)


def written(target: Tensor, source: Tensor, non_blocking=False) -> Tensor:
    """``target.copy_(source)`` from another device: directly into its memory if both have the same strides."""
    alike = (target._rush_meta.dtype is source._rush_meta.dtype and target._rush_meta.shape == source._rush_meta.shape
             and target._rush_meta.strides == source._rush_meta.strides)
    recorded = target.requires_grad or source.requires_grad
    if alike and is_dense(target._rush_meta) and not (recorded or target._rush_meta.turned or source._rush_meta.turned):
        sharing.count_write(target)
        if non_blocking and target._rush_meta.device.provider.on_host:
            weights.show(target._rush_storage)  # it may be written after this returns
        try:
            transport(target, source, non_blocking)
        finally:
            sharing.count_end(target)
        return target
    return OPS["copy_"](target, moved(source, target._rush_meta.device, non_blocking))


def copied_bytes(where: device, target: int, source: int, nbytes: int):
    """Copy bytes from one address of a device to another."""
    if where.provider.on_host:
        copy_bytes(target, source, nbytes)
    elif where.provider.has_data:
        where.provider.copy(where.index, target, source, nbytes)
