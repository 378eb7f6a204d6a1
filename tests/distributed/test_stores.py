"""Stores against strangers: files that others wrote, and connections that send anything."""
from __future__ import annotations

import datetime
import os
import pickle
import socket
import stat
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight.distributed as dist
from rushlight.distributed import store_messages

from tests.startup.machine_code import search_path

ROOT = Path(__file__).parents[2]
POSIX = "rushlight._src.core.platform.posix"
SECOND = struct.pack("<q", 1000)


class Bomb:
    """An object whose pickle makes a directory when it is read."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def part(kind, data=b""):
    return struct.pack("<cI", kind, len(data)) + data


def message(*parts):
    return struct.pack("<I", len(parts)) + b"".join(parts)


def framed(data):
    return struct.pack("<I", len(data)) + data


def question(kind, *parts, limit=SECOND):
    return framed(message(part(b"s", kind), part(b"i", limit), *parts))


def nested(depth):
    data = message()
    for _ in range(depth):
        data = message(part(b"l", data))
    return part(b"l", data)


KEY = part(b"s", b"text")
MALFORMED = {
    "lists in lists": question(b"set", nested(3000)), "list as a key": question(b"get", nested(0)),
    "number of 4,000 digits": question(b"wait", KEY, limit=b"9" * 4000), "nothing": framed(b""),
    "no limit": framed(message(part(b"s", b"num_keys"))), "truth value as limit": framed(
        message(part(b"s", b"num_keys"), part(b"t", b"\1"))),
    "limit of text": framed(message(part(b"s", b"wait"), part(b"s", b"x"), KEY)), "no key": question(b"get"),
    "unknown question": question(b"__init__"), "kind of bytes": framed(message(part(b"b", b"get"), part(b"i", SECOND))),
    "number to append": question(b"append", KEY, part(b"i", SECOND)), "number to wait for":
        question(b"wait", part(b"i", SECOND)), "nothing to push": question(b"queue_push", KEY, part(b"n")),
    "adding to text": question(b"add", KEY, part(b"i", SECOND)), "adding too much":
        question(b"add", part(b"s", b"most"), part(b"i", struct.pack("<q", 2**63 - 1))),
    "no UTF-8": question(b"get", part(b"s", b"\xff")), "short part":
        framed(message(part(b"s", b"get"), struct.pack("<cI", b"i", 1 << 20))),
    "fewer parts than announced": framed(struct.pack("<I", 1 << 31)), "bytes after the parts":
        framed(message(part(b"s", b"num_keys"), part(b"i", SECOND)) + b"x"),
    "message too large": struct.pack("<I", store_messages.LIMIT + 1), "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "too many keys": question(b"check", *[part(b"s")] * (store_messages.MOST_KEYS + 1))}


@pytest.fixture
def store():
    made = dist.TCPStore("127.0.0.1", 0, 1, is_master=True, timeout=datetime.timedelta(seconds=600))
    made.set("key", "value")
    made.set("text", "text")
    made.set("most", str(2**63 - 1))
    yield made
    made.close()


def stranger(store):
    return socket.create_connection(("127.0.0.1", store.port), 600)


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_messages_close_their_connection_alone(store, case):
    other = store.clone()
    with stranger(store) as line:
        line.sendall(MALFORMED[case])
        try:
            assert line.recv(1) == b""
        except ConnectionResetError:
            pass  # closed before it had read everything
    assert store.get("key") == other.get("key") == b"value" and store.get("text") == b"text"
    other.close()


def test_random_bytes_leave_the_store_alive(store):
    for turn in range(20):
        with stranger(store) as line:
            line.sendall(os.urandom(300) if turn % 2 else framed(os.urandom(40)))
        assert store.get("key") == b"value"


def test_unfinished_and_waiting_clients_block_nobody(store):
    with stranger(store) as half, stranger(store) as waiting, stranger(store) as long:
        half.sendall(struct.pack("<I", 100) + b"x")
        waiting.sendall(question(b"wait", part(b"s", b"never"), limit=struct.pack("<q", 1 << 40)))
        long.sendall(question(b"wait", part(b"s", b"never"), limit=struct.pack("<q", 2**63 - 1)))
        assert store.get("key") == b"value"


def test_a_client_that_never_reads_blocks_nobody(store):
    size = 30_000_000
    store.set("large", b"x" * size)
    with stranger(store) as line:
        for _ in range(4):
            line.sendall(question(b"get", part(b"s", b"large")))
        assert store.get("key") == b"value"
        for _ in range(4):  # all answers arrive once it reads
            left = 4 + 4 + 5 + 2 + 5 + size
            while left:
                left -= len(line.recv(min(left, 1 << 20)))
        line.setblocking(False)
        with pytest.raises(BlockingIOError):
            line.recv(1)


def test_clients_refuse_answers_of_strangers():
    with socket.create_server(("127.0.0.1", 0)) as server:
        for answer in (framed(message(nested(3000))), struct.pack("<I", 0xffffffff), framed(message(part(b"s", b"ok"))),
                       framed(b"")):
            store = dist.TCPStore("127.0.0.1", server.getsockname()[1], wait_for_workers=False)
            line, _ = server.accept()
            with line:
                line.sendall(answer)
                with pytest.raises(dist.DistNetworkError):
                    store.get("key")


def test_wrong_types_are_refused_before_they_are_sent(store):
    for ask in (lambda: store.set(3, "x"), lambda: store.get(b"key"), lambda: store.wait([None])):
        with pytest.raises(TypeError):
            ask()
    for ask in (lambda: store.add("n", 1 << 70), lambda: store.set("large", b"x" * store_messages.LIMIT)):
        with pytest.raises(ValueError):
            ask()
    assert store.get("key") == b"value"


def test_many_keys_are_listed(store):
    store.multi_set([str(n) for n in range(3000)], ["x"] * 3000)
    assert len(store.list_keys()) == store.num_keys() == 3003 + 1  # one counts the processes


@pytest.mark.parametrize("change", [("set", (b"key", [b"x"])), ("get", ("key",)), ("__init__", ()), None])
def test_files_that_no_store_wrote_are_refused(tmp_path, change):
    path = tmp_path / "store"
    path.write_bytes(b"garbage\n" if change is None else store_messages.encode([change[0], *map(str, change[1])]).hex()
                     .encode() + b"\n")
    path.chmod(0o600)
    with pytest.raises(dist.DistStoreError, match="no store wrote"):
        dist.FileStore(path, 1)


def test_files_of_stores_hold_no_pickles(tmp_path):
    path = tmp_path / "store"
    path.write_bytes(pickle.dumps(("set", (Bomb(tmp_path / "made"), b"x"))).hex().encode() + b"\n")
    path.chmod(0o600)
    with pytest.raises(dist.DistStoreError, match="no store wrote"):
        dist.FileStore(path, 1)
    assert not (tmp_path / "made").exists()


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
class TestOwners:
    def test_files_are_made_for_this_user_alone(self, tmp_path):
        store = dist.FileStore(tmp_path / "store", 1)
        assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o600
        assert store.add("n", 1) == 1
        other = dist.FileStore(tmp_path / "store", 1)
        other.set("key", b"\0\xff\n")
        assert store.get("key") == b"\0\xff\n"

    @pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
    def test_files_that_others_may_write_are_refused(self, tmp_path, mode, monkeypatch):
        monkeypatch.setattr(f"{POSIX}.is_private_group", lambda gid: False)
        path = tmp_path / "store"
        path.touch()
        path.chmod(mode)
        with pytest.raises(dist.DistStoreError, match=f"let others write to it; chmod go-w {path}"):
            dist.FileStore(path, 1)
        assert path.read_bytes() == b""

    def test_files_of_a_private_group_are_used(self, tmp_path, monkeypatch):
        monkeypatch.setattr(f"{POSIX}.is_private_group", lambda gid: True)
        path = tmp_path / "store"
        path.touch()
        path.chmod(0o664)
        assert dist.FileStore(path, 1).add("n", 1) == 1

    def test_files_of_others_are_refused(self, tmp_path, monkeypatch):
        path = tmp_path / "store"
        path.touch(0o600)
        monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
        with pytest.raises(dist.DistStoreError, match="owns it"):
            dist.FileStore(path, 1)

    def test_what_is_no_file_is_refused(self, tmp_path):
        (tmp_path / "file").touch(0o600)
        (tmp_path / "link").symlink_to(tmp_path / "file")
        os.mkfifo(tmp_path / "pipe", 0o600)
        for name in ("link", "pipe", ".", "missing/store"):
            with pytest.raises(dist.DistStoreError, match="cannot be used"):
                dist.FileStore(tmp_path / name, 1)
        assert (tmp_path / "file").read_bytes() == b""

    def test_a_file_that_others_may_write_to_later_is_refused(self, tmp_path):
        store = dist.FileStore(tmp_path / "store", 1)
        (tmp_path / "store").chmod(0o666)
        with pytest.raises(dist.DistStoreError, match="let others write to it"):
            store.get("key")
        (tmp_path / "store").chmod(0o600)
        store.close()


def test_stores_end_with_the_interpreter():
    """One that outlives the names of modules closes its connection and its server without an error."""
    code = """import os
from rushlight.distributed import tcp_store
os.module, os.store = tcp_store, tcp_store.TCPStore("127.0.0.1", 0, 1, is_master=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600,
                          env={**os.environ, "PYTHONPATH": search_path(ROOT)})
    assert (done.returncode, done.stderr) == (0, "")
