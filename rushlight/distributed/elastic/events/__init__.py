"""Events of a run, recorded by loggers ``torchelastic-events-<destination>``."""
from __future__ import annotations

import logging
import os
import socket
import sys
import traceback

from .api import Event, EventSource, NodeState, RdzvEvent
from .handlers import get_logging_handler

__all__ = ["Event", "EventSource", "NodeState", "RdzvEvent", "construct_and_record_rdzv_event", "get_logging_handler",
           "record", "record_rdzv_event"]


def logger_of(destination: str) -> logging.Logger:
    """The logger of events for a destination, with its handler."""
    found = logging.getLogger(f"torchelastic-events-{destination}")
    if not found.handlers:
        found.setLevel(logging.INFO)
        found.propagate = False
        found.addHandler(get_logging_handler(destination))
    return found


def record(event: Event, destination: str = "null"):
    """Notes an event."""
    logger_of(destination).info(event.serialize())


def record_rdzv_event(event: RdzvEvent):
    """Record an event of a rendezvous."""
    logger_of("dynamic_rendezvous").info(event.serialize())


def construct_and_record_rdzv_event(run_id: str, message: str, node_state: NodeState, name: str = "",
                                    hostname: str = "", pid: int | None = None, master_endpoint: str = "",
                                    local_id: int | None = None, rank: int | None = None):
    """Record an event of a rendezvous with its source, and the error that is handled now, if any."""
    error = sys.exc_info()[1]
    record_rdzv_event(RdzvEvent(
        name or sys._getframe(1).f_code.co_name, run_id, message, hostname or socket.getfqdn(), pid or os.getpid(),
        node_state, master_endpoint, rank, local_id, "".join(traceback.format_exception(error)) if error else ""))
