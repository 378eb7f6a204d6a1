"""``torch._lazy.ts_backend``: makes the device ``lazy`` available."""
from __future__ import annotations

from .._src.core.devices import Registry


def init():
    """Makes devices of type ``lazy`` available.  A second call changes nothing."""
    from .._src.devices.lazy import provider
    if Registry.providers.get(provider.type) is not provider:
        Registry.enter(provider.type, provider)
