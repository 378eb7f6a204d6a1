"""Files hold no more than their bytes: small ones that ask for much memory are refused."""
from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib

import pytest

import rushlight as rl
from rushlight.serialization import MOST_EXPANSION, SMALL
from rushlight.utils.safetensors import load_file


def compressed(tensor, method) -> io.BytesIO:
    """What ``save`` writes, compressed by somebody else."""
    plain, made = io.BytesIO(), io.BytesIO()
    rl.save({"x": tensor}, plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(made, "w", method) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    made.seek(0)
    return made


def test_entries_that_expand_a_hundredfold_are_refused():
    large = compressed(rl.zeros(SMALL + 1, dtype=rl.uint8), zipfile.ZIP_DEFLATED)
    with pytest.raises(RuntimeError, match=f"{MOST_EXPANSION} times"):
        rl.load(large)


def test_compressed_and_plain_entries_are_read():
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        assert rl.load(compressed(rl.arange(1000), method))["x"].sum() == 499500
    assert rl.load(compressed(rl.zeros(SMALL + 1, dtype=rl.uint8), zipfile.ZIP_STORED))["x"].numel() == SMALL + 1


def overlapping(count: int, nbytes: int) -> io.BytesIO:
    """An archive of ``count`` plain entries whose content is all that follows them, with sums that hold."""
    names = [f"a/data/{k}" for k in range(count)] + ["a/data.pkl"]
    heads, body = b"", bytes(nbytes)
    for name in reversed(names):
        rest = heads + body
        heads = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 0, zlib.crc32(rest), len(rest), len(rest), len(name),
                            0) + name.encode() + heads
    directory, at, whole = b"", 0, heads + body
    for name in names:
        start, at = at, at + 30 + len(name)
        rest = whole[at:]
        directory += struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 0, zlib.crc32(rest), len(rest), len(rest),
                                 len(name), 0, 0, 0, 0, 0, start) + name.encode()
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, len(names), len(names), len(directory), len(whole), 0)
    return io.BytesIO(whole + directory + end)


@pytest.mark.parametrize("count", [1, 3, 100])
def test_overlapping_entries_of_archives_are_refused(count):
    file = overlapping(count, 1000)
    with zipfile.ZipFile(file) as archive:
        assert sum(info.file_size for info in archive.infolist()) > archive.start_dir
    with pytest.raises(RuntimeError, match="more than the .* of the archive"):
        rl.load(file)


def test_compressed_entries_that_expand_together_are_refused():
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        for k in range(3):
            target.writestr(f"a/data/{k}", bytes(SMALL // 2))
        target.writestr("a/data.pkl", b"N.")
    with pytest.raises(RuntimeError, match="its compressed entries hold .* times"):
        rl.load(made)


def written(path, ranges, nbytes):
    header = json.dumps({name: {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}
                         for name, (begin, end) in ranges.items()}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(nbytes))
    return path


@pytest.mark.parametrize("ranges", [{"a": (0, 8), "b": (0, 8)}, {"a": (0, 8), "b": (7, 9)}, {"a": (2, 3), "b": (0, 8)},
                                    {"a": (0, 8), "b": (4, 4), "c": (6, 8)}])
def test_overlapping_entries_are_refused(tmp_path, ranges):
    with pytest.raises(RuntimeError, match="do not overlap"):
        load_file(written(tmp_path / "a.safetensors", ranges, 16))


def test_entries_in_any_order_are_read(tmp_path):
    found = load_file(written(tmp_path / "a.safetensors", {"a": (8, 16), "b": (0, 8), "c": (0, 0), "d": (8, 8)}, 16))
    assert {name: x.numel() for name, x in found.items()} == {"a": 8, "b": 8, "c": 0, "d": 0}
