"""Large blocks: none overlap, neighbours join when they are free, and memory goes back to the system."""
import ctypes
import random
import subprocess
import sys

import pytest

from rushlight._src.core.errors import OutOfMemoryError
from rushlight._src.core.native import Storage, allocate, heap
from rushlight._src.core.native.allocator import LARGE, divide
from rushlight._src.core.native.blocks import HEADER, PAGE, block_bytes, give, trim


def marked(storage, value):
    """Writes a value to both ends of a storage."""
    for at in (0, storage.nbytes - 1):
        ctypes.c_uint8.from_address(storage.address + at).value = value
    return storage, value


def intact(storage, value) -> bool:
    return all(ctypes.c_uint8.from_address(storage.address + at).value == value for at in (0, storage.nbytes - 1))


@pytest.mark.parametrize("seed", range(3))
def test_blocks_keep_to_themselves(seed):
    chance, live, before = random.Random(seed), [], heap.live
    for k in range(3000):
        if live and chance.random() < 0.5:
            assert intact(*live.pop(chance.randrange(len(live))))
        else:
            live.append(marked(allocate(int(2 ** chance.uniform(16.1, 23))), k % 256))
        if k % 1000 == 500:
            trim()
        if len(live) > 60:
            live.clear()
    spans = sorted((s.address - HEADER, s.address - HEADER + block_bytes(s.nbytes)) for s, _ in live)
    assert all(end <= following for (_, end), (following, _) in zip(spans, spans[1:]))
    assert all(intact(*pair) for pair in live) and heap.live - before == sum(end - start for start, end in spans)
    live.clear()
    assert heap.live == before


def test_neighbours_join():
    trim()
    storage = allocate(200 << 20)
    at = storage.address
    del storage
    pieces = [allocate(chance << 20) for chance in (30, 20, 60, 10, 70)]
    while pieces:
        del pieces[len(pieces) // 2]
    assert allocate(200 << 20).address == at


ALONE = """
from rushlight._src.core.native import allocate
storage = allocate(1 << 20)
at = storage.address
del storage
assert allocate(1 << 19).address == at
"""


def test_what_was_never_touched_is_taken_last():
    """In a process that has no other free blocks."""
    subprocess.run([sys.executable, "-c", ALONE], check=True)


def test_free_memory_goes_back():
    trim()
    reserved, storages = heap.reserved, [allocate(200 << 20), allocate(1 << 20)]
    assert heap.reserved > reserved
    del storages
    assert heap.cached >= 201 << 20
    trim()
    assert heap.cached == 0 and heap.reserved <= reserved


def test_divided_memory_has_several_owners():
    before = heap.live
    whole = allocate(10 * PAGE + (1 << 20))
    pieces = []
    for offset, nbytes in ((0, 3 * PAGE), (16 * PAGE, 100_000), (16 * PAGE + block_bytes(100_000), 5 * PAGE)):
        piece = Storage()
        piece.address, piece.nbytes = whole.address + offset, nbytes
        pieces.append(marked(piece, len(pieces) + 1))
    rest = whole.address
    for piece, _ in pieces:
        rest = divide(whole, piece, rest)
    give(rest)
    assert whole.kind == 0 and all(piece.kind == LARGE for piece, _ in pieces)
    assert heap.live - before == sum(block_bytes(piece.nbytes) for piece, _ in pieces)
    others = [marked(allocate(3 * PAGE + (1 << 16)), 9) for _ in range(20)]
    assert all(intact(*pair) for pair in [*pieces, *others])
    del piece, others
    pieces.clear()
    assert heap.live == before


def test_more_than_there_is():
    with pytest.raises(OutOfMemoryError):
        allocate(1 << 55)
