"""Counters of collectives as they are called (``tensor.debug.CommDebugMode``)."""
from __future__ import annotations

import contextlib
import threading

from .worlds import here

COUNTERS: list = []  # (world, function of a name) of each block that counts, of all threads
# methods of a group -> what PyTorch's operators are called
CALLED = {"all_reduce": "c10d.allreduce_", "reduce_to": "c10d.reduce_", "broadcast_from": "c10d.broadcast_",
          "gather_to": "c10d.allgather_", "gather_whole": "c10d._allgather_base_", "scatter_from": "c10d.scatter_",
          "reduce_scattered": "c10d._reduce_scatter_base_", "all_to_all_of": "c10d.alltoall_",
          "all_to_all_rows": "c10d.alltoall_base_", "meet": "c10d.barrier", "send_to": "c10d.send",
          "receive_from": "c10d.recv_", "broadcast_bytes": "c10d.broadcast_", "gather_bytes": "c10d.allgather_",
          "monitored": "c10d.barrier", "send_bytes": "c10d.send", "receive_bytes": "c10d.recv_"}
WITHIN = threading.local()  # ``named``: True while this thread's collectives are counted under another name


def count(name: str):
    """Report a collective to the counters of this world: by the name of the group's method, or of an operator."""
    if not getattr(WITHIN, "named", False):
        world = here()
        for counted, note in list(COUNTERS):
            if counted is world:
                note(CALLED.get(name, name))


@contextlib.contextmanager
def counted_as(name: str):
    """A block whose collectives count as one, under this name."""
    if not COUNTERS:
        yield
        return
    count(name)
    before, WITHIN.named = getattr(WITHIN, "named", False), True
    try:
        yield
    finally:
        WITHIN.named = before
