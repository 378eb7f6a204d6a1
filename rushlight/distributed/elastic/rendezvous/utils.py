"""Parsing of rendezvous addresses and settings."""
from __future__ import annotations

import contextlib
import socket


def parse_rendezvous_endpoint(endpoint: str | None, default_port: int) -> tuple[str, int]:
    """Return (host, port) of "host", "host:port" or "[address]:port".  ValueError for another format.

    >>> from rushlight.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint
    >>> parse_rendezvous_endpoint("example.net", 29400), parse_rendezvous_endpoint("[::1]:80", 29400)
    (('example.net', 29400), ('::1', 80))
    """
    endpoint = (endpoint or "").strip()
    if not endpoint:
        return "localhost", default_port
    host, colon, port = endpoint.rpartition(":") if ":" in endpoint.rpartition("]")[2] else (endpoint, "", "")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if colon and not (port.isdigit() and int(port) < 1 << 16):
        raise ValueError(f"The port number of the rendezvous endpoint '{endpoint}' must be an integer between 0 and "
                         "65536.")
    if not host or any(c.isspace() or c in "[]/" for c in host):
        raise ValueError(
            f"The hostname of the rendezvous endpoint '{endpoint}' must be a dot-separated list of labels, an IPv4 "
            "address, or an IPv6 address.")
    return host, int(port) if colon else default_port


def parse_rendezvous_config(config: str) -> dict[str, str]:
    """Return the settings of "key=value,key=value".  ValueError for another format."""
    found = {}
    for part in filter(None, map(str.strip, (config or "").split(","))):
        key, equals, value = (text.strip() for text in part.partition("="))
        if not key or not equals or not value:
            raise ValueError(
                "The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>.")
        found[key] = value
    return found


_parse_rendezvous_config = parse_rendezvous_config


def is_here(host: str) -> bool:
    """True if a name or address is this host's."""
    if host in ("localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()):
        return True
    with contextlib.suppress(OSError):
        addresses = {info[4][0] for info in socket.getaddrinfo(host, None)}
        return bool(addresses & {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)})
    return False


_matches_machine_hostname = is_here
