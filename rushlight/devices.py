"""Devices of one's own: a Provider says what a type of device has, and ``register`` makes the type known (docs/devices.md)."""
from __future__ import annotations

from ._src.devices.base import Pinned, Properties, Provider, Streams, register

__all__ = ["Pinned", "Properties", "Provider", "Streams", "register"]
