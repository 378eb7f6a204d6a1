"""Packages for Windows and macOS: their libraries as a loader reads them; run where Wine or qemu-user is installed."""
import hashlib
import os
import re
import shutil
import struct
from pathlib import Path

import pytest

from rushlight._src.core.llvm.macho import scale
from rushlight._src.core.llvm.relocation import Unknown
from rushlight._src.devices.cpu.llvm.features import host, level
from rushlight._src.packages import macho, pe
from rushlight._src.packages.entry import PUBLIC

from .libraries import Mac, Windows
from .test_emulated import compiled, emulator, packaged, ran, same, unpacked
from .test_packages import heavy

WINDOWS, MAC = "x86_64-pc-windows-msvc", "arm64-apple-darwin"
x86 = pytest.mark.skipif(not host().is_x86, reason="made on x86-64 only")


@x86
def test_libraries_of_windows_are_as_their_loader_reads_them(tmp_path):
    packaged("lstm", tmp_path / "model.pt2", WINDOWS)
    library = Windows(unpacked(tmp_path, tmp_path / "model.pt2", "dll").read_bytes())
    assert set(library.exports) == set(PUBLIC) and list(library.exports) == sorted(PUBLIC)
    assert {library.section(place) for place in library.exports.values()} == {".text"}
    assert library.section(library.start) == ".text"
    assert set(library.imports) <= {*pe.LIBRARIES, pe.REST}
    assert {"_aligned_malloc", "_aligned_free"} <= set(library.imports[pe.REST])
    for place in library.moved:  # each is an address within the library, and lies where it may be written
        assert library.section(place) == ".data"
        assert library.section(struct.unpack_from("<Q", library.data, place)[0] - library.base)
    assert len(set(library.moved)) == len(library.moved) > 20
    flags = {name: flags >> 29 & 7 for name, _, _, flags in library.sections}
    assert flags[".text"] == 0b011 and flags[".data"] == 0b110 and flags[".rdata"] == 0b010  # write, read, execute


def test_libraries_of_macos_are_as_their_loader_reads_them(tmp_path):
    packaged("lstm", tmp_path / "model.pt2", MAC)
    library = Mac(unpacked(tmp_path, tmp_path / "model.pt2", "dylib").read_bytes())
    assert set(library.exports) == {f"_{name}" for name in PUBLIC}
    begin, end, protection = library.segments["__TEXT"]
    assert protection == 5 and all(begin < place < end for place in (*library.exports.values(), *library.starts))
    assert len(library.starts) == 1
    begin, end, protection = library.segments["__DATA"]
    assert protection == 3 and all(begin <= place < end for place in (*library.moved, *library.bound))
    assert not set(library.moved) & set(library.bound) and len(library.moved) > 20
    assert {"_aligned_alloc", "_free", "_pthread_create", "___ulock_wait"} <= set(library.bound.values())
    last = max(end for _, end, _ in library.segments.values())
    for place in library.moved:
        assert 0 < struct.unpack_from("<Q", library.data, place)[0] < last
    check_signature(library)


def check_signature(library: Mac):
    """Every page has the hash that the signature tells."""
    at, nbytes = struct.unpack_from("<II", library.data, library.commands[0x1D] + 8)
    assert at + nbytes == len(library.data)
    told = library.data[at + 20:]
    _, _, _, flags, hashes, _, _, count, covered = struct.unpack_from(">9I", told)
    assert covered == at and flags & 2 and count == -(-at // 4096)
    for k in range(count):
        page = library.data[4096 * k:min(at, 4096 * (k + 1))]
        assert told[hashes + 32 * k:hashes + 32 * (k + 1)] == hashlib.sha256(page).digest()


@pytest.mark.parametrize("form", [pe.ObjectFile, macho.ObjectFile])
def test_other_object_files_are_refused(form):
    with pytest.raises(Unknown):
        form(b"\x7fELF\2\1" + bytes(100), {})


@pytest.mark.parametrize("which", ["linear", "images", "lstm", "several"])
def test_code_for_macos_computes_the_same(which, tmp_path):
    """The library's code, which a loader of the test's own brings into the memory of an emulated processor."""
    command = [emulator("aarch64"), "-L", "/usr/aarch64-linux-gnu"]
    model, inputs, metas = packaged(which, tmp_path / "model.pt2", MAC)
    compiled(tmp_path, tmp_path / "model.pt2", "aarch64-linux-gnu-gcc", "dylib", ("-DIMAGE", "-ldl", "-lm"))
    library = Mac((tmp_path / "model.dylib").read_bytes())
    lines = [f"rebase {place}" for place in library.moved]
    lines += [f"bind {place} {name[1:]}" for place, name in library.bound.items()]
    lines += [f"start {place}" for place in library.starts]
    lines += [f"export {place} {name[1:]}" for name, place in library.exports.items()]
    (tmp_path / "model.dylib.table").write_text("\n".join(lines) + "\n")
    found = ran(command, tmp_path, tmp_path / "model.pt2", inputs, metas, "model.dylib")
    same(found[1], model(*inputs))


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    """Wine with a home of its own; the test is skipped where there is none."""
    found = shutil.which("wine") or shutil.which("wine64")
    if not found or not shutil.which("x86_64-w64-mingw32-gcc"):
        pytest.skip("Wine or a compiler for Windows is not installed")
    home = os.environ.get("RUSHLIGHT_TEST_WINE") or str(tmp_path_factory.mktemp("wine"))
    return ["env", f"HOME={home}", f"WINEPREFIX={home}/wine", "WINEDEBUG=-all", found]


@pytest.mark.long
@x86
@pytest.mark.parametrize("which", ["linear", "images", "lstm", "several"])
def test_libraries_of_windows_compute_the_same(which, tmp_path, wine):
    model, inputs, metas = packaged(which, tmp_path / "model.pt2", WINDOWS)
    compiled(tmp_path, tmp_path / "model.pt2", "x86_64-w64-mingw32-gcc", "dll", ())
    (tmp_path / "run.exe").rename(tmp_path / "run")
    same(ran(wine, tmp_path, tmp_path / "model.pt2", inputs, metas, "model.dll")[1], model(*inputs))


@pytest.mark.long
@x86
def test_windows_maps_large_weights(tmp_path, wine):
    model, x = heavy(tmp_path / "model.pt2", WINDOWS)
    compiled(tmp_path, tmp_path / "model.pt2", "x86_64-w64-mingw32-gcc", "dll", ())
    (tmp_path / "run.exe").rename(tmp_path / "run")
    metas = [{"dtype": "float32", "shape": [3, 7], "strides": [7, 1]}]
    same(ran(wine, tmp_path, tmp_path / "model.pt2", (x,), metas, "model.dll")[1], model(x))


def test_offsets_of_loads_count_in_what_they_load():
    words = {0x91000000: 0, 0x39400000: 0, 0x79400000: 1, 0xB9400000: 2, 0xF9400000: 3, 0xBD400000: 2, 0xFD400000: 3,
             0x3DC00000: 4, 0x3D800000: 4, 0x3D400000: 0, 0x7D400000: 1}
    assert {word: scale(word) for word in words} == words
    assert level(MAC).registers == 32 and level(WINDOWS).width == 256


def test_packages_are_made_without_what_only_one_system_has():
    files = [file for file in Path(pe.__file__).parent.glob("*.py")]
    wrong = [file.name for file in files
             if re.search(r"platform\.(linux|posix|macos|windows)\b|^import (fcntl|resource)", file.read_text(), re.M)]
    assert len(files) > 15 and not wrong
