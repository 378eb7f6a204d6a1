"""A rendezvous backend in a store: one string that hosts replace by compare-and-set."""
from __future__ import annotations

import base64
import binascii
import datetime
import os
import tempfile

from ...stores import DistError, FileStore, Store
from ...tcp_store import TCPStore
from .api import RendezvousConnectionError, RendezvousParameters, RendezvousStateError
from .dynamic_rendezvous import RendezvousBackend
from .utils import is_here, parse_rendezvous_endpoint

DEFAULT_PORT = 29400


class C10dRendezvousBackend(RendezvousBackend):
    """The state of a run as a value of a store."""

    def __init__(self, store: Store, run_id: str):
        if not run_id:
            raise ValueError("The run id must be a non-empty string.")
        self.store, self.key = store, f"torch.rendezvous.{run_id}"

    name = property(lambda self: "c10d")

    def asked(self, expected: bytes, desired: bytes):
        try:
            return self.store.compare_set(self.key, expected, desired)
        except DistError as error:
            raise RendezvousConnectionError(
                "The connection to the C10d store has failed. See inner exception for details.") from error

    def get_state(self):
        return self.read(self.asked(b"", b""))

    def set_state(self, state: bytes, token=None):
        data, expected = base64.b64encode(state), b"" if token is None else token
        found = self.read(self.asked(expected, data))
        return None if found is None else (*found, found[1] == data)

    def read(self, data: bytes):
        if not data:
            return None
        try:
            return base64.b64decode(data, validate=True), data
        except binascii.Error as error:
            raise RendezvousStateError("The state object is corrupt. See inner exception for details.") from error


def create_backend(params: RendezvousParameters):
    """Return (backend, store) of an endpoint: a TCPStore that the host of this address keeps (``store_type`` "tcp"), or
    a file ("file").  ValueError for another type, RendezvousConnectionError if it cannot be reached."""
    kind, wait = params.get("store_type", "tcp"), params.get_as_int("read_timeout", 60)
    if not isinstance(kind, str) or kind.strip().lower() not in ("tcp", "file"):
        raise ValueError("Invalid store type given. Currently only supports file and tcp.")
    if wait <= 0:
        raise ValueError("The read timeout must be a positive integer.")
    store = (file_store if kind.strip().lower() == "file" else tcp_store)(params, datetime.timedelta(seconds=wait))
    return C10dRendezvousBackend(store, params.run_id), store


def file_store(params, wait):
    """The store in the file that the endpoint names, or in a new one."""
    path = params.endpoint or os.path.join(tempfile.mkdtemp(prefix="rushlight_rendezvous_"), "store")
    store = FileStore(path)
    store.set_timeout(wait)
    return store


def tcp_store(params, wait):
    """Return the store at an address: this process keeps it if the address is its host's and has no store yet."""
    host, port = parse_rendezvous_endpoint(params.endpoint, DEFAULT_PORT)
    asked = params.get_as_bool("is_host")
    ways = (True, False) if asked is None and is_here(host) else (bool(asked),)
    for keeps in ways:
        try:
            return TCPStore(host, port, None, keeps, wait, wait_for_workers=False)
        except DistError as error:
            if keeps is ways[-1]:
                raise RendezvousConnectionError(
                    "The connection to the C10d store has failed. See inner exception for details.") from error
    return None
