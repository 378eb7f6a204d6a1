"""Results of a rendezvous of hosts, and the handlers that arrange it."""
from __future__ import annotations

import abc
import dataclasses
import socket
from collections.abc import Callable

from ...stores import Store


class RendezvousError(Exception):
    """The rendezvous of hosts failed."""


class RendezvousClosedError(RendezvousError):
    """The rendezvous of this name is closed."""


class RendezvousTimeoutError(RendezvousError):
    """Too few hosts have come in time."""


class RendezvousConnectionError(RendezvousError):
    """The rendezvous backend cannot be reached."""


class RendezvousStateError(RendezvousError):
    """The state in the rendezvous backend cannot be read."""


class RendezvousGracefulExitError(RendezvousError):
    """This host was not admitted, and may exit."""


@dataclasses.dataclass
class RendezvousStoreInfo:
    """The address at which workers find one another's store."""

    master_addr: str
    master_port: int

    @staticmethod
    def build(rank: int, store: Store, local_addr: str | None = None, server_port: int | None = None):
        """Return the address of the first host, which sends it by ``store``; port None: a free one of that host."""
        if rank == 0:
            from ..utils.distributed import get_free_port
            store.set("MASTER_ADDR", local_addr or socket.getfqdn())
            store.set("MASTER_PORT", str(get_free_port() if server_port is None else server_port))
        return RendezvousStoreInfo(store.get("MASTER_ADDR").decode(), int(store.get("MASTER_PORT")))


class RendezvousInfo:
    """The result of a rendezvous for a host: a store that only its members use, the host's rank, the number of hosts,
    and the address at which workers meet."""

    def __init__(self, store: Store, rank: int, world_size: int, bootstrap_store_info: RendezvousStoreInfo):
        self._store, self._rank, self._size, self._bootstrap = store, rank, world_size, bootstrap_store_info

    store = property(lambda self: self._store)
    rank = property(lambda self: self._rank)
    world_size = property(lambda self: self._size)
    bootstrap_store_info = property(lambda self: self._bootstrap)


class RendezvousHandler(abc.ABC):
    """Arranges rendezvous."""

    @abc.abstractmethod
    def get_backend(self) -> str:
        """The name under which it was registered."""

    @property
    def use_agent_store(self) -> bool:
        """True if workers use the store of the rendezvous."""
        return False

    @abc.abstractmethod
    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for the rendezvous.  RendezvousClosedError, RendezvousTimeoutError, RendezvousError."""

    @abc.abstractmethod
    def is_closed(self) -> bool:
        """True if the rendezvous is closed."""

    @abc.abstractmethod
    def set_closed(self):
        """Close the rendezvous."""

    @abc.abstractmethod
    def num_nodes_waiting(self) -> int:
        """Return the number of hosts that wait for the next rendezvous and could join it."""

    @abc.abstractmethod
    def get_run_id(self) -> str:
        """The name of the run."""

    @abc.abstractmethod
    def shutdown(self) -> bool:
        """Close all resources; True if that succeeded."""


class RendezvousParameters:
    """Parameters of a handler.  ValueError without a backend, or for invalid numbers of hosts."""

    def __init__(self, backend: str, endpoint: str, run_id: str, min_nodes: int, max_nodes: int,
                 local_addr: str | None = None, **kwargs):
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if min_nodes < 1:
            raise ValueError(f"The minimum number of rendezvous nodes ({min_nodes}) must be greater than zero.")
        if max_nodes < min_nodes:
            raise ValueError(
                f"The maximum number of rendezvous nodes ({max_nodes}) must be greater than or equal to the minimum "
                f"number of rendezvous nodes ({min_nodes}).")
        self.backend, self.endpoint, self.run_id, self.local_addr = backend, endpoint, run_id, local_addr
        self.min_nodes, self.max_nodes, self.config = min_nodes, max_nodes, kwargs

    def get(self, key: str, default=None):
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """Return a setting as a bool.  ValueError if it is not one."""
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        text = str(value).lower()
        if isinstance(value, (int, str)) and text in ("1", "true", "t", "yes", "y", "0", "false", "f", "no", "n"):
            return text in ("1", "true", "t", "yes", "y")
        raise ValueError(f"The rendezvous configuration option '{key}' does not represent a valid boolean value.")

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """Return a setting as an integer.  ValueError if it is not one."""
        value = self.get(key, default)
        try:
            return None if value is None else int(value)
        except ValueError:
            raise ValueError(
                f"The rendezvous configuration option '{key}' does not represent a valid integer value.") from None


RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """Makers of handlers by name."""

    def __init__(self):
        self.makers: dict = {}

    def register(self, backend: str, creator: RendezvousHandlerCreator):
        """ValueError for a name that another maker has."""
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if self.makers.get(backend, creator) is not creator:
            raise ValueError(
                f"The rendezvous backend '{backend}' cannot be registered with '{creator}' as it is already registered "
                f"with '{self.makers[backend]}'.")
        self.makers[backend] = creator

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """Return a new handler.  ValueError for an unregistered name; RuntimeError if the handler's name differs."""
        if params.backend not in self.makers:
            raise ValueError(
                f"The rendezvous backend '{params.backend}' is not registered. Did you forget to call `register`?")
        handler = self.makers[params.backend](params)
        if handler.get_backend() != params.backend:
            raise RuntimeError(
                f"The rendezvous backend '{handler.get_backend()}' does not match the requested backend "
                f"'{params.backend}'.")
        return handler


rendezvous_handler_registry = RendezvousHandlerRegistry()
