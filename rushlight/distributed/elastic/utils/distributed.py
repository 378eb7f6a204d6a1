"""Ports of this machine that nobody uses."""
from __future__ import annotations

import socket


def get_socket_with_port() -> socket.socket:
    """A socket that holds a free port of this machine, until it is closed."""
    found = socket.socket()
    found.bind(("127.0.0.1", 0))
    found.listen(0)
    return found


def get_free_port() -> int:
    """A port of this machine that nobody uses now."""
    with get_socket_with_port() as found:
        return found.getsockname()[1]
