"""Tiles that multiply two rows by two columns, on an emulated processor: every bit as with dot products."""
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from rushlight._src.devices.cpu.llvm import generate
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.features import level, targeting
from rushlight._src.devices.cpu.llvm.types import i64, ptr
from rushlight._src.devices.cpu.templates import tile
from rushlight._src.devices.cpu.templates.contraction import numbers

PROCESSORS = {"aarch64-v8.6": "max,pauth=off,sve=off", "aarch64-sve256": "max,pauth=off,sve-default-vector-length=32"}
KINDS = [("bfloat16", ""), ("int8", ""), ("uint8", ""), ("uint8", "int8"), ("int8", "uint8")]
SHAPES = [(10, 2), (6, 3), (3, 1)]
CHUNKS = 5
MAIN = """
#include <stdio.h>
#include <stdlib.h>
%s
static char a[1 << 16], b[1 << 16], c[1 << 16];
int main(void) {
    fread(a, 1, sizeof a, stdin);
    fread(b, 1, sizeof b, stdin);
    %s
    return 0;
}
"""
CALL = "{ static char c[1 << 12]; product_%d(a, b, c, %d); fwrite(c, 1, sizeof c, stdout); }"


def forms(target):
    """(Numbers, rows, vectors, bytes from a row of A to the next) of every tile, by blocks and then by dots."""
    with targeting(level(target)):
        for dtypes in KINDS:
            kind = numbers(*dtypes)
            for rows, vectors in SHAPES:
                for row in (kind.word.bytes * tile.CHUNK, kind.word.bytes):
                    yield from ((one, rows, vectors, row) for one in (kind, replace(kind, blocks=None)))


def objects(target):
    """The object file of a function for each form."""
    with targeting(level(target)), generate.tools() as (context, machines):
        module = Module()
        for k, (kind, rows, vectors, row) in enumerate(forms(target)):
            f = module.function(f"product_{k}", [("a", ptr), ("b", ptr), ("c", ptr), ("count", i64)])
            a, b, c, count = f.parameters
            found = tile.sums(f, kind, rows, vectors, a, row, rows * tile.CHUNK * kind.word.bytes, b, count)
            for j, total in enumerate(found):
                f.store(total, f.offset(c, j * total.type.bytes), align=4)
            f.ret()
        return generate.generate(module.text(), 1, context, machines, level(target))


@pytest.mark.parametrize("target", PROCESSORS)
def test_blocks_give_every_bit_of_dots(target, tmp_path):
    if not shutil.which("qemu-aarch64-static") or not shutil.which("aarch64-linux-gnu-gcc"):
        pytest.skip("no emulator of AArch64, or no compiler for it, is installed")
    (tmp_path / "tiles.o").write_bytes(objects(target))
    made = list(forms(target))
    declared = "\n".join(f"void product_{k}(void *, void *, void *, long);" for k in range(len(made)))
    calls = "\n".join(CALL % (k, CHUNKS) for k in range(len(made)))
    (tmp_path / "main.c").write_text(MAIN % (declared, calls))
    subprocess.run(["aarch64-linux-gnu-gcc", "-static", "-o", "main", "main.c", "tiles.o"], cwd=tmp_path, check=True)
    random = np.random.default_rng(0)
    # bytes whose pairs are finite bfloat16 numbers of few magnitudes
    halves = (random.standard_normal(1 << 16).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    out = subprocess.run(["qemu-aarch64-static", "-cpu", PROCESSORS[target], "main"], cwd=tmp_path, check=True,
                         input=halves.tobytes(), capture_output=True, timeout=1500).stdout
    results = np.frombuffer(out, np.uint32).reshape(len(made), -1)
    for k in range(0, len(made), 2):
        kind, rows, vectors, _ = made[k]
        count = rows * vectors * kind.lanes
        assert results[k, :count].any() and (results[k, :count] == results[k + 1, :count]).all(), made[k]
    check_whole(made, results, halves.view(np.uint8))


def check_whole(made, results, data):
    """int8 tiles whose rows store their words adjacently, against NumPy."""
    for (kind, rows, vectors, row), found in zip(made, results):
        if kind.accumulator.is_float or row == kind.word.bytes:
            continue
        lanes, whole = vectors * kind.lanes, CHUNKS * tile.CHUNK
        a = data[:4 * rows * whole].view(np.int8 if kind.signed else np.uint8).astype(np.int64)
        b = data[1 << 16:][:4 * lanes * whole].view(np.int8 if kind.b_signed else np.uint8).astype(np.int64)
        a = a.reshape(CHUNKS, rows, tile.CHUNK, 4).transpose(1, 0, 2, 3).reshape(rows, -1)
        b = b.reshape(whole, lanes, 4).transpose(0, 2, 1).reshape(-1, lanes)
        assert (found[:rows * lanes].view(np.int32).reshape(rows, lanes) == a @ b).all(), (kind, rows, vectors)
