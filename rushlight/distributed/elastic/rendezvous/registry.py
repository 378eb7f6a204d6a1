"""Handlers by name: "c10d" and "static"."""
from __future__ import annotations

from .api import RendezvousHandler, RendezvousParameters, rendezvous_handler_registry


def c10d(params: RendezvousParameters) -> RendezvousHandler:
    """Return the handler over a store that one of the hosts keeps."""
    from .c10d_rendezvous_backend import create_backend
    from .dynamic_rendezvous import create_handler
    backend, store = create_backend(params)
    return create_handler(store, backend, params)


def static(params: RendezvousParameters) -> RendezvousHandler:
    """Return the handler for hosts that are known beforehand."""
    from .static_tcp_rendezvous import create_rdzv_handler
    return create_rdzv_handler(params)


def etcd(params: RendezvousParameters) -> RendezvousHandler:
    """Raise NotImplementedError: there is no etcd client."""
    raise NotImplementedError(f"the rendezvous backend {params.backend} needs an etcd client, which is not available "
                              "here: use c10d, whose store one of the hosts keeps")


def register_default_handlers():
    """Makes the handlers of this package known by their names."""
    for name, maker in (("c10d", c10d), ("static", static), ("etcd", etcd), ("etcd-v2", etcd)):
        rendezvous_handler_registry.register(name, maker)


def get_rendezvous_handler(params: RendezvousParameters) -> RendezvousHandler:
    """Return the handler of a backend.  ValueError for an unregistered one; NotImplementedError for etcd."""
    return rendezvous_handler_registry.create_handler(params)
