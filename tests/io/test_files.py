"""Where checkpoints are written: modes, links, pipes, devices, and what is left when writing fails."""
import io
import os
import re
import signal
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight._src.core import files
from rushlight.utils import safetensors

torch = pytest.importorskip("torch")
WRITERS = {"save": lambda path: rl.save({"x": rl.arange(3)}, path),
           "safetensors": lambda path: safetensors.save_file({"x": rl.arange(3)}, path)}
READERS = {"save": rl.load, "safetensors": safetensors.load_file}
named = pytest.mark.parametrize("name", WRITERS)


@pytest.fixture(params=[True, False], ids=["unnamed", "named"], autouse=True)
def kind(request, monkeypatch):
    """With files that have no name until they are whole, and as on systems without."""
    if not request.param:
        monkeypatch.delattr(os, "O_TMPFILE")


def good(name, path):
    return READERS[name](path)["x"].tolist() == [0, 1, 2]


@named
@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_new_files_have_the_mode_of_the_umask_and_old_ones_keep_theirs(name, umask, tmp_path):
    before = os.umask(umask)
    try:
        for path, mode in ((tmp_path / "new", None), (tmp_path / "old", 0o664), (tmp_path / "private", 0o600)):
            if mode:
                path.write_text("old")
                path.chmod(mode)
            WRITERS[name](path)
            assert stat.S_IMODE(path.stat().st_mode) == (mode or 0o666 & ~umask) and good(name, path)
    finally:
        os.umask(before)
    assert len(list(tmp_path.iterdir())) == 3


@named
def test_links_are_followed(name, tmp_path):
    (tmp_path / "folder").mkdir()
    for link, target in (("link", "folder/target"), ("dangling", "folder/new")):
        (tmp_path / link).symlink_to(target)
    (tmp_path / "folder/target").write_text("old")
    os.link(tmp_path / "folder/target", tmp_path / "second")
    for link in ("link", "dangling"):
        WRITERS[name](tmp_path / link)
        assert (tmp_path / link).is_symlink() and good(name, tmp_path / link)
    assert good(name, tmp_path / "second")  # the same file by another name


@named
def test_pipes_and_devices_stay_and_get_the_bytes(name, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    WRITERS[name](tmp_path / "pipe")
    reader.join()
    (tmp_path / "copy").write_bytes(found[0])
    assert good(name, tmp_path / "copy") and stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    if name == "save":
        assert torch.load(tmp_path / "copy")["x"].tolist() == [0, 1, 2]
    WRITERS[name]("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_standard_output_is_written(tmp_path):
    program = "import rushlight as rl; rl.save({'x': rl.arange(3)}, '/dev/stdout')"
    with open(tmp_path / "out", "wb") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert good("save", tmp_path / "out")


@named
def test_a_failure_leaves_the_old_file_and_nothing_else(name, tmp_path, monkeypatch):
    path = tmp_path / "file"
    WRITERS[name](path)
    before = path.read_bytes()
    if name == "save":
        with pytest.raises(Exception):
            rl.save({"x": rl.arange(3), "y": lambda: 0}, path)
    with pytest.raises(KeyboardInterrupt), files.replaced(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    monkeypatch.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError):
        WRITERS[name](path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_a_killed_process_leaves_nothing(tmp_path):
    if not hasattr(os, "O_TMPFILE"):
        pytest.skip("files have names from the start on this system")
    program = ("import os, signal\nfrom rushlight._src.core.files import replaced\nwith "
               f"replaced({str(tmp_path / 'x')!r}) as f:\n    f.write(b'a')\n    f.flush()\n    os.kill(os.getpid(), "
               "signal.SIGKILL)")
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


@named
def test_a_full_disk_is_an_error_that_keeps_the_old_file(name, tmp_path):
    path = tmp_path / "file"
    WRITERS[name](path)
    write = "safetensors.save_file({'x': big}, path)" if name == "safetensors" else "rl.save({'x': big}, path)"
    program = ("import resource, signal; import rushlight as rl; from rushlight.utils import "
               "safetensors\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
               f"big, path = rl.zeros(1000000), {str(path)!r}\nresource.setrlimit(resource.RLIMIT_FSIZE, (100000, "
               "100000))\n"
               f"try:\n    {write}\nexcept OSError as error:\n    print('refused')")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "refused" and good(name, path) and list(tmp_path.iterdir()) == [path], done.stderr


def test_missing_folders_are_named(tmp_path):
    with pytest.raises(RuntimeError, match="does not exist"):
        rl.save({}, tmp_path / "none" / "file")
    with pytest.raises(FileNotFoundError):
        safetensors.save_file({}, tmp_path / "none" / "file")


@pytest.mark.parametrize("weights_only", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "bytes", "latin1"])
def test_texts_of_python_2(encoding, weights_only):
    """Such files name storages by bytes, which an encoding leaves as they are; other strings are decoded by it."""
    written = io.BytesIO()
    torch.save([torch.tensor([1.0, 2.0]), 2, "\u017c\xf3"], written, _use_new_zipfile_serialization=False)
    old = re.sub(rb"X(.)\x00\x00\x00", lambda found: b"U" + found[1], written.getvalue())
    assert old != written.getvalue()
    text = "\u017c\xf3".encode()
    wanted = text if encoding == "bytes" else text.decode(encoding)
    for lib in (torch, rl):
        found = lib.load(io.BytesIO(old), weights_only=weights_only, encoding=encoding)
        assert found[0].tolist() == [1, 2] and found[1:] == [2, wanted]


def test_arguments_for_an_unpickler_of_weights_are_checked():
    written = io.BytesIO()
    rl.save([1], written)
    written.seek(0)
    with pytest.raises(TypeError, match="errors"):
        rl.load(written, weights_only=True, errors="strict")


class ReadInto:
    """A file of which bytes of entries can only be read into memory."""

    def __init__(self, content):
        self.file, self.most = io.BytesIO(content), 0
        self.seek, self.tell = self.file.seek, self.file.tell
        self.readline, self.readinto = self.file.readline, self.file.readinto

    def read(self, count=-1):
        found = self.file.read(count)
        self.most = max(self.most, len(found))
        return found


@pytest.mark.parametrize("is_archive", [True, False])
@pytest.mark.parametrize("writer", [rl, torch])
def test_entries_are_read_straight_into_memory(writer, is_archive):
    written = io.BytesIO()
    values = list(range(40_000))
    writer.save({"a": writer.tensor(values), "b": writer.ones(0)}, written, _use_new_zipfile_serialization=is_archive)
    content = written.getvalue()
    file = ReadInto(content)
    found = rl.load(file)
    assert found["a"].tolist() == values and found["b"].shape == (0,) and file.most < 4096
    if not is_archive:
        for kind in (io.BytesIO, ReadInto):
            with pytest.raises(RuntimeError, match="bytes instead of"):
                rl.load(kind(content[:-100]))
        return
    damaged = bytearray(content)
    damaged[content.index(np.arange(500, 510).tobytes()) + 8] ^= 1
    for source in (io.BytesIO(damaged), ReadInto(damaged)):
        with pytest.raises(RuntimeError, match="CRC"):
            rl.load(source)
