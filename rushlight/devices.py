"""Custom devices: a Provider describes a device type, and ``register`` adds it (docs/devices.md)."""
from __future__ import annotations

from ._src.core.devices import cpu, device as _device
from ._src.devices.base import Pinned, Properties, Provider, Streams, register

__all__ = ["Pinned", "Properties", "Provider", "Streams", "host", "recover", "register"]


def host() -> Provider:
    """Return the CPU's Provider: ``host().run(0, code, values)`` runs a program whose memory the CPU can access.

    >>> host().type, host().on_host
    ('cpu', True)
    """
    return cpu.provider


def recover(device):
    """Recreate a device that was lost (a driver that was reset, a GPU that was taken away): its tensors are gone, and
    what uses one of them raises AcceleratorError.  Devices that are not lost stay as they are.  NotImplementedError
    for types whose drivers cannot do so in a running process, such as "cuda" and "cpu".

    >>> import rushlight as torch
    >>> torch.devices.recover("cpu")
    Traceback (most recent call last):
    NotImplementedError: a device of type 'cpu' cannot be recreated in a running process
    """
    where = _device(device)
    where.provider.recover(where.provider.placed(where).index or 0)
