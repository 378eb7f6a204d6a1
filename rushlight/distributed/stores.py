"""Stores: keys with bytes for values, by which processes find one another.  One process keeps them in its own memory, or in a file."""
from __future__ import annotations

import datetime
import pickle
import threading
import time
from pathlib import Path

DEFAULT_TIMEOUT = datetime.timedelta(minutes=30)


class DistError(RuntimeError):
    """What goes wrong between processes."""


class DistStoreError(DistError):
    """A key that does not come within the time allowed."""


class DistBackendError(DistError):
    """What goes wrong in a backend."""


class DistNetworkError(DistError):
    """An address that cannot be reached."""


class QueueEmptyError(DistStoreError):
    """A queue of a store without an entry."""


def as_bytes(value) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


class Store:
    """Keys and values, shared by the threads of this process."""

    def __init__(self):
        self.values, self.changed, self.timeout = {}, threading.Condition(), DEFAULT_TIMEOUT

    def set(self, key: str, value):
        with self.changed:
            self.write(key, as_bytes(value))

    def read(self) -> dict:
        return self.values

    def write(self, key: str, value: bytes):
        self.values[key] = value
        self.changed.notify_all()

    def get(self, key: str) -> bytes:
        """The value of a key, once there is one; DistStoreError after the timeout."""
        self.wait([key])
        return self.read()[key]

    def wait(self, keys, timeout=None):
        """Waits until all keys have values; DistStoreError after the timeout."""
        end = time.monotonic() + (timeout or self.timeout).total_seconds()
        with self.changed:
            while not self.check(keys):
                if (left := end - time.monotonic()) <= 0:
                    raise DistStoreError("Wait timeout")
                self.changed.wait(min(left, 0.1))

    def check(self, keys) -> bool:
        known = self.read()
        return all(key in known for key in keys)

    def add(self, key: str, amount: int) -> int:
        """Adds to the number under a key, 0 at first; the sum."""
        with self.changed:
            total = int(self.read().get(key, b"0")) + amount
            self.write(key, as_bytes(total))
        return total

    def append(self, key: str, value):
        with self.changed:
            self.write(key, self.read().get(key, b"") + as_bytes(value))

    def compare_set(self, key: str, expected, desired) -> bytes:
        """Sets a key whose value is ``expected`` (or that has none, where that is empty); the value it has then."""
        with self.changed:
            if self.read().get(key, b"") == as_bytes(expected):
                self.write(key, as_bytes(desired))
            return self.read().get(key, as_bytes(expected))

    def delete_key(self, key: str) -> bool:
        with self.changed:
            return self.read().pop(key, None) is not None

    def num_keys(self) -> int:
        return len(self.read())

    def list_keys(self) -> list:
        return list(self.read())

    def multi_get(self, keys) -> list:
        return [self.get(key) for key in keys]

    def multi_set(self, keys, values):
        for key, value in zip(keys, values):
            self.set(key, value)

    def set_timeout(self, timeout: datetime.timedelta):
        self.timeout = timeout

    def has_extended_api(self) -> bool:
        return True


class HashStore(Store):
    """A store in memory."""


class FileStore(Store):
    """A store in a file: each change is a line more."""

    def __init__(self, file_name: str, world_size: int = -1):
        super().__init__()
        self.path = str(file_name)
        Path(self.path).touch()

    def read(self) -> dict:
        known = {}
        with open(self.path, "rb") as file:
            for line in file:
                key, value = bytes.fromhex(line.split()[0].decode()).decode(), line.split()[1:]
                known[key] = bytes.fromhex(value[0].decode()) if value else b""
        return known

    def write(self, key: str, value: bytes):
        with open(self.path, "ab") as file:
            file.write(f"{key.encode().hex()} {value.hex()}\n".encode())

    def delete_key(self, key: str) -> bool:
        raise RuntimeError("deleteKey not implemented for FileStore")


class TCPStore(HashStore):
    """A store at an address: here the process that asks is the one that keeps it."""

    def __init__(self, host_name: str, port: int = 0, world_size: int | None = None, is_master: bool = False, timeout=DEFAULT_TIMEOUT, wait_for_workers: bool = True,
                 multi_tenant: bool = False, master_listen_fd: int | None = None, use_libuv: bool = True):
        from .membership import refuse_more
        refuse_more(world_size or 1)
        super().__init__()
        self.host, self.port, self.timeout = host_name, port, timeout


class PrefixStore(Store):
    """A store whose keys have a prefix in another one."""

    def __init__(self, prefix: str, store: Store):
        self.prefix, self.underlying_store, self.changed, self.timeout = f"{prefix}/", store, store.changed, store.timeout

    def read(self) -> dict:
        return {key.removeprefix(self.prefix): value for key, value in self.underlying_store.read().items() if key.startswith(self.prefix)}

    def write(self, key: str, value: bytes):
        self.underlying_store.write(self.prefix + key, value)

    def delete_key(self, key: str) -> bool:
        return self.underlying_store.delete_key(self.prefix + key)


def copied(value):
    """An object as it would arrive from another process."""
    return pickle.loads(pickle.dumps(value))
