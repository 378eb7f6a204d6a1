"""Archives lie as PyTorch lays them: folders, entries, places; each reads the other's, also mapped."""
import io
import mmap
import zipfile

import pytest
import torch as judge

import rushlight as torch

BOTH = (judge, torch)


def contents(t):
    return {"a": t.ones(3), "b": t.arange(1000).reshape(10, 100), "c": t.zeros(0)}


def starts(data):
    """Where the content of each entry begins."""
    found = []
    for info in zipfile.ZipFile(io.BytesIO(data)).infolist():
        at = info.header_offset
        found.append(at + 30 + sum(int.from_bytes(data[at + k:at + k + 2], "little") for k in (26, 28)))
    return found


@pytest.mark.parametrize("name", ["model.tar.gz", "plain", "x.", "q r.pth", "ü.pt"])
def test_folders_and_entries(name, tmp_path):
    listed = []
    for k, t in enumerate(BOTH):
        path = tmp_path / str(k) / name
        path.parent.mkdir()
        t.save(contents(t), path)
        listed.append(zipfile.ZipFile(path).namelist())
    assert listed[0] == listed[1]


def test_a_name_that_is_only_an_ending_is_refused(tmp_path):
    for t in BOTH:
        with pytest.raises(RuntimeError, match="invalid file name"):
            t.save(1, tmp_path / ".pt")


def test_entries_are_aligned_and_files_are_equal():
    files = []
    for t in (judge, torch, torch):
        file = io.BytesIO()
        t.save(contents(t), file)
        files.append(file.getvalue())
    assert files[1] == files[2] and {s % 64 for s in starts(files[0]) + starts(files[1])} == {0}
    for name in ("archive/.format_version", "archive/.storage_alignment", "archive/byteorder", "archive/version"):
        assert len({zipfile.ZipFile(io.BytesIO(f)).read(name) for f in files}) == 1


@pytest.mark.parametrize("writer", BOTH)
def test_mapped_storages_are_parts_of_the_file(writer, tmp_path):
    path = tmp_path / "x.pt"
    writer.save(contents(writer), path)
    for t in BOTH:
        found = t.load(path, mmap=True)
        assert found["b"].sum() == 499500 and found["c"].shape == (0,)
        found["a"].fill_(7)
        assert t.load(path)["a"].tolist() == [1, 1, 1]
        with t.serialization.set_default_mmap_options(mmap.MAP_SHARED):
            t.load(path, mmap=True)["a"].add_(1)
        assert t.load(path, mmap=True)["a"].tolist() == [2, 2, 2]
        writer.save(contents(writer), path)  # what was written through the mapping is not what its sum says


def test_options_of_files(tmp_path):
    for t in BOTH:
        config = t.utils.serialization.config
        with pytest.raises(ValueError, match="MAP_PRIVATE"):
            t.serialization.set_default_mmap_options(99)
        t.serialization.set_crc32_options(False)
        assert not t.serialization.get_crc32_options() and config.save.compute_crc32 is False
        t.save(contents(t), tmp_path / "n.pt")
        t.serialization.set_crc32_options(True)
        assert {i.CRC for i in zipfile.ZipFile(tmp_path / "n.pt").infolist() if "data" in i.filename} == {0}
        assert t.load(tmp_path / "n.pt")["a"].tolist() == [1, 1, 1]
        with config.patch("save.storage_alignment", 4096):
            t.save(contents(t), tmp_path / "wide.pt")
        assert {s % 4096 for s in starts((tmp_path / "wide.pt").read_bytes())} == {0}
        with pytest.raises(AttributeError):
            config.save.nothing = 1


def test_bytes_of_storages_are_skipped(tmp_path):
    for t in BOTH:
        with t.serialization.skip_data():
            t.save({"a": t.ones(3)}, tmp_path / "s.pt")
        assert bytes(12) in (tmp_path / "s.pt").read_bytes()
        t.save({"a": t.ones(3)}, tmp_path / "s.pt")
        with t.serialization.skip_data():
            assert t.load(tmp_path / "s.pt")["a"].shape == (3,)


@pytest.mark.parametrize("writer,reader", [BOTH, BOTH[::-1]])
def test_complex_numbers_of_halves_travel(writer, reader):
    file = io.BytesIO()
    values = [1 + 2j, -0.5j, 3e4]
    writer.save(writer.tensor(values, dtype=writer.complex32), file)
    file.seek(0)
    found = reader.load(file)
    assert found.dtype is reader.complex32 and found.tolist() == [complex(v) for v in values]
