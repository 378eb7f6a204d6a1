"""Tensors to several devices and back: ``torch.nn.parallel.comm``, which is ``torch.cuda.comm`` too."""
from __future__ import annotations

from ..._src.core.devices import placed
from ..._src.ops.pieces import cat

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def one_of(devices, out):
    """RuntimeError unless just one of both is given."""
    if (devices is None) == (out is None):
        raise RuntimeError(f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and "
                           f"out={out}")


def broadcast(tensor, devices=None, *, out=None) -> tuple:
    """Copy a tensor to each of some devices (on its own: the tensor itself); or ``out``, tensors that are filled with
    it. RuntimeError unless just one of them is given.

    >>> import rushlight as torch
    >>> torch.nn.parallel.comm.broadcast(torch.ones(2), devices=["cpu", "cpu"])
    (tensor([1., 1.]), tensor([1., 1.]))
    """
    one_of(devices, out)
    if out is not None:
        return tuple(one.copy_(tensor) for one in out)
    return tuple(tensor.to(placed(device), non_blocking=True) for device in devices)


def broadcast_coalesced(tensors, devices, buffer_size=10485760) -> list:
    """For each device a list of the tensors there; copies are given one after another, whatever ``buffer_size``."""
    return [[tensor.to(placed(device), non_blocking=True) for tensor in tensors] for device in devices]


def reduce_add(inputs, destination=None):
    """Return the sum of tensors of one shape on different GPUs, on one of them (default the current one).
    AssertionError for a CPU tensor, ValueError for another shape, RuntimeError if that device has no tensor."""
    for number, one in enumerate(inputs):
        if one.device.provider.on_host:
            raise AssertionError(f"reduce_add expects all inputs to be on GPUs, but input {number} is on CPU")
        if one.shape != inputs[0].shape:
            raise ValueError(f"input {number} has invalid size: got {list(one.shape)}, but expected "
                             f"{list(inputs[0].shape)}")
    where = placed(inputs[0].device.type if destination is None else destination)
    there = next((number for number, one in enumerate(inputs) if one.device == where), None)
    if there is None:
        raise RuntimeError("reduce_add expects destination to be on the same GPU with one of the tensors")
    found = inputs[there]
    for one in (*inputs[:there], *inputs[there + 1:]):
        found = found + one.to(where, non_blocking=True)
    return found.clone() if len(inputs) == 1 else found


def reduce_add_coalesced(inputs, destination=None, buffer_size=10485760) -> tuple:
    """``reduce_add`` of the first tensors of all lists, of the second ones and so on."""
    return tuple(reduce_add(list(row), destination) for row in zip(*inputs))


def scatter(tensor, devices=None, chunk_sizes=None, dim=0, streams=None, *, out=None) -> tuple:
    """Parts of a tensor along a dimension, equal ones or of ``chunk_sizes``, on some devices; or ``out``, tensors that
    are filled with parts of their size.  With ``streams``, a Stream or None for each device, copies to a device wait
    for nothing but what its stream has been given.  RuntimeError for sizes that do not add up, or both ``devices`` and
    ``out``."""
    if out is not None:
        for name, value in (("devices", devices), ("chunk_sizes", chunk_sizes)):
            if value is not None:
                raise RuntimeError(f"'{name}' must not be specified when 'out' is specified, but got {name}={value}")
        parts = tensor.split([one.shape[dim] for one in out], dim)
        return tuple(one.copy_(part) for one, part in zip(out, parts, strict=True))
    parts = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    made = []
    for number, (part, device) in enumerate(zip(parts, devices)):
        stream = streams[number] if streams is not None else None
        if stream is None:
            made.append(part.to(placed(device), non_blocking=True))
        else:
            with stream:
                made.append(part.to(placed(device), non_blocking=True))
    return tuple(made)


def gather(tensors, dim=0, destination=None, *, out=None):
    """Concatenate tensors of several devices along a dimension, on one of them (default: the accelerator's current
    one; -1: the CPU), or in ``out``.  RuntimeError if both are given."""
    if out is not None:
        if destination is not None:
            raise RuntimeError(f"'destination' must not be specified when 'out' is specified, but got destination="
                               f"{destination}")
        return out.copy_(cat([one.to(out.device) for one in tensors], dim))
    where = placed("cpu" if destination == -1 else tensors[0].device.type if destination is None else destination)
    return cat([one.to(where) for one in tensors], dim)
