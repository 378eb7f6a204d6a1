"""``torch._lazy``: steps of the device ``lazy``, which ``torch._lazy.ts_backend.init()`` makes available.

Calls on tensors of that device run at once (``_src/devices/lazy``), so a step finds all work done.

>>> import rushlight as torch
>>> torch._lazy.ts_backend.init()
>>> x = torch.ones(3, device="lazy") * 2
>>> torch._lazy.mark_step()
>>> x.device, x.cpu()
(device(type='lazy', index=0), tensor([2., 2., 2.]))
"""
from __future__ import annotations

from .._src.core.devices import device
from .._src.core.later import later
from .._src.core.native import Tensor
from .._src.core.pytree import tree_map

KIND = "lazy"


def synchronize(name: str):
    """Waits until a device of type ``lazy`` has done all that it was given.  RuntimeError for another device."""
    named = device(name or KIND)
    if named.type != KIND:
        raise RuntimeError(f"expected a device of type '{KIND}', such as 'lazy:0', but got '{named}'")
    placed = named.provider.placed(named)
    placed.provider.synchronize(placed.index)


def mark_step(device: str = "", wait=False):
    """End a step on a lazy device: all calls before it have run when this returns, with or without ``wait``."""
    synchronize(device)


def wait_device_ops(devices=None):
    """Waits for all calls on the given lazy devices, on all of them when none is given."""
    for name in devices or [KIND]:
        synchronize(name)


def sync_multi(tensors, devices):
    """Waits for the values of ``tensors``, and for all calls on ``devices``."""
    wait_device_ops([*{str(tensor.device) for tensor in tensors}, *devices])


def to_cpu(tensors, devices=None):
    """Copies the tensors of a pytree to the CPU; other leaves stay as they are."""
    return tree_map(lambda leaf: leaf.cpu() if isinstance(leaf, Tensor) else leaf, tensors)


def save(tensors, *args, **kwargs):
    """``torch.save`` of copies on the CPU."""
    from ..serialization import save as save_file
    save_file(to_cpu(tensors), *args, **kwargs)


__getattr__ = later(__name__)
