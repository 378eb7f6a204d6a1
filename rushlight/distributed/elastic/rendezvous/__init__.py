"""Rendezvous of the hosts of a run."""
from .api import (RendezvousClosedError, RendezvousConnectionError, RendezvousError, RendezvousGracefulExitError,
                  RendezvousHandler, RendezvousHandlerCreator, RendezvousHandlerRegistry, RendezvousInfo,
                  RendezvousParameters, RendezvousStateError, RendezvousStoreInfo, RendezvousTimeoutError,
                  rendezvous_handler_registry)  # noqa: F401
from .registry import get_rendezvous_handler, register_default_handlers  # noqa: F401

register_default_handlers()
