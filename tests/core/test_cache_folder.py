"""What lies in the disk cache is run, so it comes from this user alone: owners, permissions, links, damage, and entries
of others."""
import errno
import importlib
import os
import signal
import stat
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from rushlight._src.core import cache, folder as folders
from rushlight._src.core.folder import Folder, Refused
from rushlight._src.core.platform import here

KEY = "object", "a key"
POSIX = "rushlight._src.core.platform.posix"


@pytest.fixture
def place(tmp_path, monkeypatch):
    path = tmp_path / "cache"
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(path))
    return path


def entries(place):
    return [path for path in place.rglob("*") if path.is_file() and path.name != folders.SECRET]


def anew():
    """As another process finds it."""
    cache._opened.cache_clear()


@pytest.mark.parametrize("umask", [0, 0o002, 0o022, 0o277, 0o777])
def test_all_is_private_whatever_the_umask(place, umask):
    before = os.umask(umask)
    try:
        assert cache.put(*KEY, b"value") and cache.get(*KEY) == b"value"
    finally:
        os.umask(before)
    for path in [place, *place.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_folder_that_others_may_write_is_refused_with_one_word(place, mode, caplog, monkeypatch):
    monkeypatch.setattr(f"{POSIX}.is_private_group", lambda gid: False)
    place.mkdir()
    place.chmod(mode)
    for _ in range(3):
        assert not cache.put(*KEY, b"value") and cache.get(*KEY) is None and cache.directory() is None
    assert len(caplog.records) == 1 and "let others write to it" in caplog.text and entries(place) == []


def test_a_group_that_has_this_user_alone_may_write(place, caplog, monkeypatch):
    """As where every user has a group of the same name, and the umask is 002."""
    monkeypatch.setattr(f"{POSIX}.is_private_group", lambda gid: gid == os.getgid())
    place.mkdir()
    place.chmod(0o775)
    assert cache.put(*KEY, b"value")
    path, = entries(place)
    path.chmod(0o664)
    assert cache.get(*KEY) == b"value" and not caplog.records
    path.chmod(0o666)
    assert cache.get(*KEY) is None and "chmod go-w" in caplog.text


def test_access_control_lists_count_as_others(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{POSIX}.is_private_group", lambda gid: True)
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o664)
    folders.check(path, path.stat())
    monkeypatch.setattr(type(here), "has_more_entries", lambda self, file: True)
    with pytest.raises(Refused, match="let others write to it"):
        folders.check(path, path.stat())


@pytest.mark.parametrize("members, others, name, is_private", [
    ([], [], "user", True), (["user"], [], "user", True), (["user", "guest"], [], "user", False),
    ([], [], "staff", False), ([], [(2, 100)], "user", False), ([], [(2, 101)], "user", True)])
def test_private_groups(monkeypatch, members, others, name, is_private):
    user = SimpleNamespace(pw_uid=1, pw_gid=100, pw_name="user")
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    monkeypatch.setattr(f"{POSIX}.pwd", SimpleNamespace(
        getpwuid={1: user}.__getitem__,
        getpwall=lambda: [user, *(SimpleNamespace(pw_uid=uid, pw_gid=gid) for uid, gid in others)]))
    monkeypatch.setattr(f"{POSIX}.grp", SimpleNamespace(
        getgrgid={100: SimpleNamespace(gr_name=name, gr_mem=members)}.__getitem__))
    found = importlib.import_module(POSIX).is_private_group
    assert found(100) == is_private and not found(102)


def test_a_folder_of_another_user_is_refused(place, monkeypatch, caplog):
    place.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert cache.directory() is None and "owns it" in caplog.text


def test_an_entry_that_others_may_write_or_own_is_refused(place, monkeypatch, caplog):
    monkeypatch.setattr(f"{POSIX}.is_private_group", lambda gid: False)
    cache.put(*KEY, b"value")
    path, = entries(place)
    path.chmod(0o620)
    assert cache.get(*KEY) is None and "dropping" in caplog.text
    path.chmod(0o600)
    assert cache.get(*KEY) == b"value"
    folder = Folder(str(place))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Refused):
        folder.get(str(path.relative_to(place)))


def test_a_link_is_followed_to_the_folder_and_never_to_an_entry(tmp_path, monkeypatch, caplog):
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    (tmp_path / "cache").mkdir(0o700)
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path / "link"))
    assert cache.put(*KEY, b"value") and cache.directory() == str(tmp_path / "cache")
    path, = entries(tmp_path / "cache")
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.get(*KEY) is None and "symbolic link" in caplog.text
    (tmp_path / "cache").chmod(0o777)
    anew()
    assert cache.directory() is None


def test_a_pipe_in_place_of_an_entry_is_refused(place):
    cache.put(*KEY, b"value")
    path, = entries(place)
    path.unlink()
    os.mkfifo(path, 0o600)
    assert cache.get(*KEY) is None
    assert cache.put(*KEY, b"again") and cache.get(*KEY) == b"again"


def test_only_what_was_written_under_its_name_is_read(place):
    """Entries of another folder, of another kind, of another key, and changed ones."""
    cache.put("object", "one", b"first")
    cache.put("object", "two", b"second")
    cache.put("plan", "one", b"third")
    paths, whole = entries(place), [path.read_bytes() for path in entries(place)]
    for path in paths:
        for other in whole:
            path.write_bytes(other)
            found = cache.get("object", "one"), cache.get("object", "two"), cache.get("plan", "one")
            assert all(value in (None, right) for value, right in zip(found, (b"first", b"second", b"third")))
        path.write_bytes(whole[paths.index(path)])
    (place / folders.SECRET).write_bytes(bytes(range(32)))
    anew()
    assert cache.get("object", "one") is None  # signed under another secret


@pytest.mark.parametrize("spoil", [lambda p: p.write_bytes(b"short"), lambda p: p.chmod(0o640), lambda p: p.unlink(),
                                   lambda p: (p.unlink(), p.symlink_to("/etc/hostname"))],
                         ids=["short", "readable", "missing", "link"])
def test_a_secret_that_is_none_is_replaced(place, spoil, monkeypatch):
    monkeypatch.setattr(folders, "PATIENCE", 0.05)
    cache.put(*KEY, b"value")
    before = (place / folders.SECRET).read_bytes()
    spoil(place / folders.SECRET)
    anew()
    assert cache.get(*KEY) is None and cache.put(*KEY, b"value") and cache.get(*KEY) == b"value"
    path = place / folders.SECRET
    assert path.read_bytes() != before and len(path.read_bytes()) == 32 and stat.S_IMODE(path.lstat().st_mode) == 0o600


@pytest.mark.parametrize("links", [True, False])
def test_all_agree_on_one_secret(place, links, monkeypatch):
    monkeypatch.setattr(folders, "PATIENCE", 60.0)  # nobody dies here: a slow writer is waited for
    if not links:
        def refuse(*arguments):
            raise PermissionError("no links here")
        monkeypatch.setattr(os, "link", refuse)
    for _ in range(20):
        found, start = [], threading.Barrier(8)

        def open_it():
            start.wait()
            found.append(Folder(str(place)).secret)

        threads = [threading.Thread(target=open_it) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert len(found) == 8 and len(set(found)) == 1 and [path.name for path in place.iterdir()] == [folders.SECRET]
        (place / folders.SECRET).unlink()


def test_a_folder_that_is_removed_is_made_again(place):
    import shutil
    cache.put(*KEY, b"value")
    shutil.rmtree(place)
    assert cache.get(*KEY) is None and cache.put(*KEY, b"again")
    anew()
    assert cache.get(*KEY) == b"again"


def test_a_relative_path_stays_where_it_was_first(tmp_path, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE", "a relative folder")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    anew()
    assert cache.directory() == str(tmp_path / "a relative folder")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert cache.directory() == str(tmp_path / "a relative folder")
    anew()


@pytest.mark.parametrize("home", [None, "/nonexistent", "/proc", "relative"])
def test_without_a_home_the_folder_is_a_private_temporary_one(tmp_path, monkeypatch, home):
    import tempfile
    monkeypatch.delenv("RUSHLIGHT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative, so ignored")
    monkeypatch.setenv("HOME", home) if home else monkeypatch.delenv("HOME", raising=False)
    # as for a user without an entry among those of the system
    monkeypatch.setattr(os.path, "expanduser", lambda path: home or path)
    make = folders.make
    # tests may run as root
    monkeypatch.setattr(folders, "make", lambda path: make(path) if path.startswith(str(tmp_path))
                        else make("/proc/none"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    anew()
    assert cache.directory() == str(tmp_path / f"rushlight-{os.geteuid()}")
    assert stat.S_IMODE(os.stat(cache.directory()).st_mode) == 0o700
    anew()


def test_what_is_carried_is_signed_where_it_is_unpacked(place, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "touched", set())
    cache.put("object", "one", b"first")
    cache.put("plan", "two", b"")
    data = cache.carried()
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path / "other"))
    for wrong in (data[:-1], data[:20], data + b"x", b"x" + data[1:], data[:60] + b"x" + data[61:]):
        with pytest.raises(ValueError, match="not cache artifacts"):
            cache.unpack(wrong)
    assert entries(tmp_path / "other") == []
    assert len(cache.unpack(data)) == 2 and cache.get("object", "one") == b"first" and cache.get("plan", "two") == b""
    assert cache.unpack(b"") == []


def aged(place, seconds):
    for path in entries(place):
        old = path.stat().st_mtime - seconds
        os.utime(path, (old, old))


def test_all_kinds_together_have_a_bound_and_what_was_not_used_for_longest_goes(place, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE_MB", "1")
    kinds = "object", "plan", "autotune", "native"
    for k in range(16):
        assert cache.put(kinds[k % 4], str(k), bytes(40_000))
        aged(place, 7200)
    assert len(entries(place)) == 16
    assert cache.get("object", "0") is not None  # used again
    for k in range(16, 16 + 4 * 32):
        cache.put(kinds[k % 4], str(k), bytes(40_000))
    Folder(place).trim(1 << 20)
    kept = entries(place)
    assert sum(folders.taken(path.stat().st_size) for path in kept) <= 1 << 20
    cache.put("object", "last", bytes(40_000))
    Folder(place).trim(5 * 40_100)
    assert cache.get("object", "last") is not None and cache.get("plan", "1") is None


def test_what_was_read_lately_outlives_what_was_written_later(place):
    for k in range(8):
        cache.put("plan", str(k), bytes(20_000))
        aged(place, 10_000)
    assert cache.get("plan", "0") is not None
    Folder(place).trim(8 * 20_000)
    assert [cache.get("plan", str(k)) is not None for k in range(8)] == [True, *[False] * 3, *[True] * 4]


def test_files_that_are_being_written_stay_and_those_left_half_written_go(place):
    cache.put(*KEY, b"value")
    folder = os.path.dirname(entries(place)[0])
    being, left = (os.path.join(folder, f"{folders.TEMPORARY}{k}") for k in range(2))
    for path in (being, left):
        open(path, "wb").write(bytes(100_000))
    os.utime(left, (0, 0))
    Folder(place).trim(1)
    assert os.listdir(folder) == [os.path.basename(being)] and os.path.exists(place / folders.SECRET)


def test_processes_write_and_trim_at_once(place, monkeypatch):
    monkeypatch.setattr(cache, "CHECKS", 1 << 20)  # every write looks
    monkeypatch.setenv("RUSHLIGHT_CACHE_MB", "1")

    def write(number):
        for k in range(40):
            assert cache.put("object", f"{number} {k}", bytes(100_000))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sum(folders.taken(path.stat().st_size) for path in entries(place))
    assert 0 < found <= 1 << 20 and not [path for path in entries(place) if path.name.startswith(folders.TEMPORARY)]


def test_small_files_count_the_blocks_that_they_take(place):
    folder = Folder(place)
    for k in range(64):
        folder.put(f"object/{k % 4:02x}/{k:04x}", b"x" * 1000)
    folder.trim(64 * folders.BLOCK)
    assert len(list(entries(place))) == 64
    folder.trim(64 * folders.BLOCK - 1)
    assert len(list(entries(place))) == 47  # down to three quarters
    assert [folders.taken(size) // folders.BLOCK for size in (0, 1, 4096, 4097, 1 << 20)] == [1, 1, 1, 2, 256]


def test_an_entry_is_read_with_one_look_at_its_status(place, monkeypatch):
    """A warm start opens one file an entry, so that each call to the system counts."""
    assert cache.put(*KEY, b"value")
    calls, names = [], ("open", "fstat", "stat", "read", "utime", "close")
    for name in names:
        def counted(*args, _name=name, _real=getattr(os, name), **options):
            calls.append(_name)
            return _real(*args, **options)
        monkeypatch.setattr(folders.os, name, counted)
    monkeypatch.setattr(folders.os, "supports_fd", {*os.supports_fd, folders.os.utime})
    assert cache.get(*KEY) == b"value"
    assert calls == ["open", "fstat", "read", "close"]


KILLED = """
import os, signal, sys
from rushlight._src.core import cache, folder
write = folder.io.open
def die(handle, mode):
    os.write(handle, b"half of an entry")
    os.kill(os.getpid(), signal.SIGKILL)
cache.put("object", "whole", b"value")
folder.io.open = lambda *args: die(*args)
cache.put("object", "a key", b"value" * 1000)
"""


def test_a_process_killed_while_it_writes_leaves_no_entry(place):
    done = subprocess.run([sys.executable, "-c", KILLED], env={**os.environ, "RUSHLIGHT_CACHE": str(place)})
    assert done.returncode == -signal.SIGKILL
    assert cache.get("object", "whole") == b"value" and cache.get(*KEY) is None
    assert cache.put(*KEY, b"again") and cache.get(*KEY) == b"again"
    left = [path for path in entries(place) if path.name.startswith(folders.TEMPORARY)]
    assert len(left) == 1  # ``trim`` removes it once nobody can be writing it any more
    os.utime(left[0], (0, 0))
    Folder(place).trim(1 << 20)
    assert not left[0].exists() and cache.get(*KEY) == b"again"


def test_a_cache_that_may_only_be_read_is_read(place, monkeypatch):
    assert cache.put(*KEY, b"value")

    def refuse(*args, **options):
        raise OSError(errno.EROFS, "Read-only file system")
    for name in ("mkdir", "utime", "unlink", "replace"):
        monkeypatch.setattr(folders.os, name, refuse)
    monkeypatch.setattr(folders, "create", refuse)
    for path in entries(place):
        monkeypatch.setattr(folders.time, "time", lambda: path.stat().st_mtime + 2 * folders.FRESH)
    anew()
    assert cache.get(*KEY) == b"value" and not cache.put("object", "another", b"value")
