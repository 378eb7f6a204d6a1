"""Stores: keys with bytes for values, by which processes find one another."""
from __future__ import annotations

import contextlib
import datetime
import os
import pickle
import threading
import time

from .._src.core import folder
from .._src.core.platform import here
from .store_messages import LIMIT, check_question, decode, encode

DEFAULT_TIMEOUT = datetime.timedelta(minutes=30)


class DistError(RuntimeError):
    """An error of communication between processes."""


class DistStoreError(DistError):
    """A key that does not come within the time allowed."""


class DistBackendError(DistError):
    """An error of a backend."""


class DistNetworkError(DistError):
    """An address that cannot be reached."""


class QueueEmptyError(DistStoreError):
    """A queue of a store without an entry."""


def as_bytes(value) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def milliseconds(time: datetime.timedelta) -> int:
    return int(time.total_seconds() * 1000)


class Store:
    """Keys and values.  ``ask`` is the one entry that a kind of store defines; one that a program writes itself may
    define the functions that it has instead.

    ``get``, ``wait`` and similar wait for missing keys until the timeout, and then raise DistStoreError.
    """

    def __init__(self):
        self.timeout = DEFAULT_TIMEOUT

    def ask(self, kind: str, *given, timeout=None):
        """Return the answer to a request of ``Table`` once it has one; by default, call the method of the request's
        name."""
        if kind == "queue_take":
            kind, given = "queue_pop", (*given, False)
        if getattr(type(self), kind) is getattr(Store, kind):
            if kind == "append":
                return self.append_by_comparing(*given)
            raise NotImplementedError(f"Not implemented. {type(self).__name__} has no {kind}()")
        if kind == "wait":
            return self.wait(list(given), *(() if timeout is None else (timeout,)))
        return self.check(list(given)) if kind == "check" else getattr(self, kind)(*given)

    def set(self, key: str, value):
        self.ask("set", key, as_bytes(value))

    def get(self, key: str) -> bytes:
        """The value of a key, once there is one; DistStoreError after the timeout."""
        return self.ask("get", key)

    def wait(self, keys, timeout=None):
        """Waits until all keys have values; DistStoreError after the timeout."""
        self.ask("wait", *keys, timeout=timeout)

    def check(self, keys) -> bool:
        return self.ask("check", *keys)

    def add(self, key: str, amount: int) -> int:
        """Adds to the integer under a key, 0 at first; returns the sum."""
        return self.ask("add", key, int(amount))

    def append(self, key: str, value):
        self.ask("append", key, as_bytes(value))

    def compare_set(self, key: str, expected, desired) -> bytes:
        """Sets a key whose value is ``expected`` (or a missing one, if that is empty); returns its value after it."""
        return self.ask("compare_set", key, as_bytes(expected), as_bytes(desired))

    def delete_key(self, key: str) -> bool:
        return self.ask("delete_key", key)

    def num_keys(self) -> int:
        return self.ask("num_keys")

    def list_keys(self) -> list:
        return self.ask("list_keys")

    def multi_get(self, keys) -> list:
        return [self.get(key) for key in keys]

    def multi_set(self, keys, values):
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def queue_push(self, key: str, value):
        """Puts a value at the end of the queue under a key."""
        self.ask("queue_push", key, as_bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Takes the first value of a queue, once there is one; without ``block`` QueueEmptyError if it is empty."""
        found = self.ask("queue_pop", key) if block else self.ask("queue_take", key)
        if found is None:
            raise QueueEmptyError("queue is empty")
        return found

    def queue_len(self, key: str) -> int:
        return self.ask("queue_len", key)

    def set_timeout(self, timeout: datetime.timedelta):
        self.timeout = timeout

    def has_extended_api(self) -> bool:
        """True if ``append``, ``multi_get`` and ``multi_set`` are one request each."""
        return type(self).ask is not Store.ask

    def append_by_comparing(self, key: str, value: bytes):
        """Append with ``compare_set`` alone; it is repeated as long as others change the value."""
        found = self.ask("compare_set", key, b"", b"")
        while (now := self.ask("compare_set", key, found, found + value)) != found + value:
            found = now

    def clone(self):
        """Another handle of the same store."""
        return self

    def late(self, kind: str, given, timeout):
        """Raise the error of a request without an answer in time."""
        keys = ", ".join(f"/{key}" for key in (given if kind == "wait" else given[:1]))
        raise DistStoreError(f"wait timeout after {milliseconds(timeout or self.timeout)}ms, keys: {keys}")


MOST = LIMIT - (1 << 10)  # bytes of a value that is appended to, which has to fit an answer
DIGITS = 20  # of the longest integer of 64 bits, with its sign


class Table:
    """Keys and values in memory.  Each method answers at once; None means that the answer must wait for a key."""

    def __init__(self):
        self.values, self.queues = {}, {}

    def set(self, key, value):
        self.values[key] = value
        return True

    def get(self, key):
        return self.values.get(key)

    def wait(self, *keys):
        return True if self.check(*keys) else None

    def check(self, *keys):
        return all(key in self.values or self.queues.get(key) for key in keys)

    def add(self, key, amount):
        held = self.values.get(key, b"0")
        if len(held) > DIGITS:
            raise ValueError(f"{key} holds {len(held)} bytes, which are no integer of 64 bits to add to")
        total = int(held) + amount
        self.values[key] = as_bytes(total)
        return total

    def append(self, key, value):
        held = self.values.get(key, b"")
        if len(held) + len(value) > MOST:
            raise ValueError(f"a value in a store has at most {MOST} bytes: {len(value)} more for {len(held)} of them")
        self.values[key] = held + value
        return True

    def compare_set(self, key, expected, desired):
        if key not in self.values and expected or key in self.values and self.values[key] != expected:
            return self.values.get(key, expected)
        self.values[key] = desired
        return desired

    def delete_key(self, key):
        return self.values.pop(key, None) is not None

    def num_keys(self):
        return len(self.values)

    def list_keys(self):
        return list(self.values)

    def queue_push(self, key, value):
        self.queues.setdefault(key, []).append(value)
        return True

    def queue_pop(self, key):
        return self.queues[key].pop(0) if self.queues.get(key) else None

    def queue_take(self, key):
        return (self.queue_pop(key),)

    def queue_len(self, key):
        return len(self.queues.get(key, ()))


def unpacked(answer):
    """Unpack an answer: one that may itself be None comes in a tuple."""
    return answer[0] if isinstance(answer, tuple) else answer


class HashStore(Store):
    """A store in memory, shared by the threads of this process."""

    def __init__(self):
        super().__init__()
        self.table, self.changed = Table(), threading.Condition()

    def ask(self, kind, *given, timeout=None):
        end = time.monotonic() + (timeout or self.timeout).total_seconds()
        with self.changed:
            while (answer := getattr(self.table, kind)(*given)) is None:
                if (left := end - time.monotonic()) <= 0:
                    self.late(kind, given, timeout)
                self.changed.wait(left)
            self.changed.notify_all()
        return unpacked(answer)


class FileStore(Store):
    """A store in a file, whose every line is a change.  The last of ``world_size`` processes removes the file when it
    closes its store.

    The file is made for this user alone.  DistStoreError for one that another user owns or may write to, for a symbolic
    link, and for one whose content no store wrote.
    """

    def __init__(self, file_name: str, world_size: int = -1):
        super().__init__()
        self.path, self.world_size, self.seen, self.table, self.open = str(file_name), world_size, 0, Table(), False
        self.ask("add", COUNT, 1)
        self.open = True

    @contextlib.contextmanager
    def locked(self):
        try:
            handle = folder.open_own(self.path, folder.SHARE)
        except OSError as error:
            raise DistStoreError(
                f"FileStore: {self.path} cannot be used: {error.strerror}. Expected a file that this user "
                "owns and other users cannot write to, or a path at which this user may make one") from error
        with open(handle, "a+b") as file:
            here.locked(file)
            yield file

    def ask(self, kind, *given, timeout=None):
        check_question(kind, given)
        end = time.monotonic() + (timeout or self.timeout).total_seconds()
        pause = 0.001
        while True:
            with self.locked() as file:
                self.follow(file)
                line = encode((kind, *given)).hex().encode() + b"\n"
                answer = getattr(self.table, kind)(*given)
                if answer is not None and kind in CHANGES:
                    file.write(line)
                    self.seen += len(line)
            if answer is not None:
                return unpacked(answer)
            if time.monotonic() > end:
                self.late(kind, given, timeout)
            time.sleep(pause)
            pause = min(pause * 2, 0.05)

    def follow(self, file):
        """Makes the changes of other processes."""
        file.seek(self.seen)
        for line in file:
            self.change(line)
            self.seen += len(line)

    def change(self, line: bytes):
        """Makes the change that a line states."""
        try:
            kind, *given = decode(bytes.fromhex(line.decode()))
            check_question(kind, given)
            if kind not in CHANGES:
                raise ValueError(f"{kind}() changes nothing")
            getattr(self.table, kind)(*given)
        except (ValueError, TypeError) as error:
            raise DistStoreError(f"FileStore: {self.path} cannot be used: byte {self.seen} begins a line that no store "
                                 f"wrote ({error})") from error

    def close(self):
        """Leaves the store."""
        if self.open:
            self.open = False
            if os.path.exists(self.path) and self.ask("add", COUNT, -1) == 0 and self.world_size > 0:
                os.unlink(self.path)

    def __del__(self):
        if getattr(self, "open", False):
            self.close()


COUNT = "efcount/"
CHANGES = ("set", "add", "append", "compare_set", "delete_key", "queue_push", "queue_pop", "queue_take")


class PrefixStore(Store):
    """A store whose keys have a prefix in another one."""

    def __init__(self, prefix: str, store: Store):
        if not isinstance(store, Store):
            raise ValueError(f"PrefixStore: the underlying store must be a Store, but is {type(store).__name__}")
        super().__init__()
        self.prefix, self.underlying_store = prefix, store

    @property
    def timeout(self):
        return self.underlying_store.timeout

    @timeout.setter
    def timeout(self, value):
        if hasattr(self, "underlying_store"):
            self.underlying_store.timeout = value

    @property
    def _underlying_non_prefix_store(self):
        """The store below all prefixes."""
        inside = self.underlying_store
        return inside._underlying_non_prefix_store if isinstance(inside, PrefixStore) else inside

    def clone(self):
        return PrefixStore(self.prefix, self.underlying_store.clone())

    def has_extended_api(self) -> bool:
        return self.underlying_store.has_extended_api()

    def multi_get(self, keys) -> list:
        return self.underlying_store.multi_get([f"{self.prefix}/{key}" for key in keys])

    def multi_set(self, keys, values):
        self.underlying_store.multi_set([f"{self.prefix}/{key}" for key in keys], list(map(as_bytes, values)))

    def ask(self, kind, *given, timeout=None):
        if kind in ("num_keys", "list_keys"):
            keys = [key.removeprefix(f"{self.prefix}/") for key in self.underlying_store.list_keys()
                    if key.startswith(f"{self.prefix}/")]
            return keys if kind == "list_keys" else len(keys)
        named = given if kind in ("wait", "check") else given[:1]
        return self.underlying_store.ask(kind, *(f"{self.prefix}/{key}" for key in named), *given[len(named):],
                                         timeout=timeout)


def copied(value):
    """Return an object as it would arrive from another process."""
    return pickle.loads(pickle.dumps(value))

