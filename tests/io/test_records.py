"""Records of archives, read and written one by one, beside PyTorch's readers and writers."""
import io

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
KINDS = ("float32", "bfloat16", "int64", "bool", "complex64")


def written(lib, path):
    lib.save({kind: lib.arange(5).to(getattr(lib, kind)) for kind in KINDS}, path)
    return path


@pytest.mark.parametrize("writer", [rl, torch])
def test_readers(writer, tmp_path):
    path = str(written(writer, tmp_path / "model.pt"))
    ours, theirs = rl.PyTorchFileReader(path), torch._C.PyTorchFileReader(path)
    assert ours.get_all_records() == theirs.get_all_records() and ours.serialization_id() == theirs.serialization_id()
    content = open(path, "rb").read()
    for name in ours.get_all_records():
        found = ours.get_record(name)
        assert ours.has_record(name) and found == theirs.get_record(name)
        start = ours.get_record_offset(name)
        assert start == theirs.get_record_offset(name) and content[start:start + len(found)] == found
    for place, kind in enumerate(KINDS):
        dtype = getattr(rl, kind)
        found = ours.get_storage_from_record(f"data/{place}", 5, dtype)
        assert found.dtype is dtype and rl.equal(found, rl.arange(5).to(dtype))
        size = found.nbytes
        raw = ours.get_storage_from_record(f"data/{place}", size, rl.UntypedStorage)
        assert raw.dtype is rl.uint8 and raw.numel() == size
    assert not ours.has_record("data/77") and not theirs.has_record("data/77")
    for reader in (ours, theirs):
        with pytest.raises(RuntimeError, match="failed locating file data/77"):
            reader.get_record("data/77")
    with pytest.raises(RuntimeError, match="20 bytes, not 6 elements"):
        ours.get_storage_from_record("data/0", 6, rl.float32)


def test_readers_refuse_other_files(tmp_path):
    (tmp_path / "text").write_bytes(b"no archive" * 9)
    for lib in (rl, torch):
        with pytest.raises(RuntimeError):
            lib._C.PyTorchFileReader(str(tmp_path / "text"))


@pytest.mark.parametrize("buffered", [True, False])
def test_writers(buffered, tmp_path):
    found = []
    for lib in (rl, torch):
        target = io.BytesIO() if buffered else str(tmp_path / f"{lib.__name__}.x.pt")
        writer = lib._C.PyTorchFileWriter(target)
        writer.write_record("note", b"some text", 4)
        storage = lib.arange(3.0).untyped_storage()
        writer.write_record("data/0", storage, storage.nbytes())
        with pytest.raises(RuntimeError, match="Tried to serialize file twice: note"):
            writer.write_record("note", b"", 0)
        names = set(writer.get_all_written_records())
        writer.write_end_of_file()
        if buffered:
            target.seek(0)
        reader = (torch if lib is rl else rl)._C.PyTorchFileReader(target)
        found.append((names, reader.get_record("note"), reader.get_record("data/0"), reader.has_record("version"),
                      reader.get_record_offset("data/0") % 64))
    assert found[0] == found[1] and found[0][1] == b"some"
    with pytest.raises(TypeError, match="got list"):
        rl.PyTorchFileWriter(io.BytesIO()).write_record("a", [1], 1)


RECORDS = {"a": b"12039810948234589", "c/d": b"", "text": b"\x00\xff" * 5000}


@pytest.mark.parametrize("kind", ["path", "buffer", "file"])
@pytest.mark.parametrize("writer, reader", [(rl, torch), (torch, rl), (rl, rl)])
def test_archives_of_the_serialization_module(tmp_path, kind, writer, reader):
    """The names of ``torch.serialization`` for readers and writers, which blocks close."""
    path = tmp_path / "file.zip"
    place = {"path": lambda: str(path), "buffer": io.BytesIO, "file": lambda: open(path, "wb+")}[kind]()
    with writer.serialization._open_zipfile_writer(place) as archive:
        for name, content in RECORDS.items():
            archive.write_record(name, content, len(content))
    if kind != "path":
        place.seek(0)
    with reader.serialization._open_zipfile_reader(place) as archive:
        assert {name: archive.get_record(name) for name in RECORDS} == RECORDS
    if kind == "file":
        assert not place.closed
        place.close()
