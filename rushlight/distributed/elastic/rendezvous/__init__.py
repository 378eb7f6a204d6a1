"""How machines of a run find one another."""
from .api import (RendezvousClosedError, RendezvousConnectionError, RendezvousError, RendezvousGracefulExitError,
                  RendezvousHandler, RendezvousHandlerCreator, RendezvousHandlerRegistry, RendezvousInfo,
                  RendezvousParameters, RendezvousStateError, RendezvousStoreInfo, RendezvousTimeoutError,
                  rendezvous_handler_registry)
from .registry import get_rendezvous_handler, register_default_handlers

register_default_handlers()

__all__ = ["RendezvousClosedError", "RendezvousConnectionError", "RendezvousError", "RendezvousGracefulExitError",
           "RendezvousHandler", "RendezvousHandlerCreator", "RendezvousHandlerRegistry", "RendezvousInfo",
           "RendezvousParameters", "RendezvousStateError", "RendezvousStoreInfo", "RendezvousTimeoutError",
           "get_rendezvous_handler", "rendezvous_handler_registry"]
