"""Devices of one's own: a Provider says what a type of device has, and ``register`` makes the type known
(docs/devices.md)."""
from __future__ import annotations

from ._src.core.devices import cpu
from ._src.devices.base import Pinned, Properties, Provider, Streams, register

__all__ = ["Pinned", "Properties", "Provider", "Streams", "host", "register"]


def host() -> Provider:
    """The processor's Provider: ``host().run(0, code, values)`` runs a program whose memory the processor reaches.

    >>> host().type, host().on_host
    ('cpu', True)
    """
    return cpu.provider
