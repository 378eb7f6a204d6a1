"""Free ports of this host."""
from __future__ import annotations

import socket


def get_socket_with_port() -> socket.socket:
    """Return a socket that holds a free port of this host, until it is closed."""
    found = socket.socket()
    found.bind(("127.0.0.1", 0))
    found.listen(0)
    return found


def get_free_port() -> int:
    """Return a port of this host that is free now."""
    with get_socket_with_port() as found:
        return found.getsockname()[1]
