"""Rendezvous of hosts with given ranks."""
from __future__ import annotations

import datetime

from ...stores import PrefixStore
from ...tcp_store import TCPStore
from .api import RendezvousHandler, RendezvousInfo, RendezvousParameters, RendezvousStoreInfo
from .utils import parse_rendezvous_endpoint


class StaticTCPRendezvous(RendezvousHandler):
    """The host of rank 0 keeps a store; the number of hosts is fixed."""

    def __init__(self, master_addr: str, master_port: int, rank: int, world_size: int, run_id: str, timeout: int):
        self.host, self.port, self.rank, self.size, self.run_id = master_addr, master_port, rank, world_size, run_id
        self.wait, self.store, self.round = datetime.timedelta(seconds=timeout), None, 0

    def get_backend(self) -> str:
        return "static"

    use_agent_store = property(lambda self: True)

    def next_rendezvous(self) -> RendezvousInfo:
        if self.store is None:
            self.store = TCPStore(self.host, self.port, None, self.rank == 0, self.wait, wait_for_workers=False)
        self.round += 1
        store = PrefixStore(f"static {self.run_id} {self.round}", self.store)
        return RendezvousInfo(store, self.rank, self.size, RendezvousStoreInfo(self.host, self.store.port))

    def is_closed(self) -> bool:
        return False

    def set_closed(self):
        """Does nothing: the members are fixed."""

    def num_nodes_waiting(self) -> int:
        return 0

    def get_run_id(self) -> str:
        return self.run_id

    def shutdown(self) -> bool:
        if self.store is not None:
            self.store.close()
            self.store = None
        return True


def create_rdzv_handler(params: RendezvousParameters) -> RendezvousHandler:
    """Return a handler for the endpoint; the setting ``rank`` is this host's.  ValueError without either, or if the
    number of hosts is not fixed."""
    if "rank" not in params.config:
        raise ValueError("rank is absent in RendezvousParameters.Try add --node-rank to the cmd request")
    if not params.endpoint:
        raise ValueError("endpoint is absent in RendezvousParametersTry add --master-port and --master-addr to the cmd "
                         "request")
    if params.min_nodes != params.max_nodes:
        raise ValueError("static rendezvous takes a fixed number of nodes: write --nnodes N, or use "
                         "--rdzv-backend c10d for N:M")
    host, port = parse_rendezvous_endpoint(params.endpoint, 29500)
    return StaticTCPRendezvous(host, port, params.get_as_int("rank"), params.max_nodes, params.run_id,
                               params.get_as_int("timeout", 600))
