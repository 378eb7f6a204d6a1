"""Destinations of events."""
from __future__ import annotations

import logging

HANDLERS = {"console": logging.StreamHandler(), "null": logging.NullHandler()}
HANDLERS["dynamic_rendezvous"] = HANDLERS["c10d"] = HANDLERS["null"]


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """Returns the handler of a destination: "console", "null", or one in ``HANDLERS``.  KeyError for others."""
    return HANDLERS[destination]
