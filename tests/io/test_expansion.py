"""Files hold no more than their bytes: small ones that ask for much memory are refused."""
from __future__ import annotations

import io
import json
import zipfile

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
