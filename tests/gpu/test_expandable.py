"""Settings of a GPU's allocator: segments that grow and shrink, and what else ``PYTORCH_CUDA_ALLOC_CONF`` asks for."""
import gc
import random

import pytest

import rushlight as rl
from rushlight._src.devices.triton.choices import choices

from .recorded import provided
from .stub import BLOCKS, GRANULARITY, HANDLES, INVALID, LIMIT, MAPPINGS, NO_MEMORY, RESERVATIONS, RESERVED

MEGABYTE = 1 << 20
chosen = rl.cuda.memory._set_allocator_settings


def of(nbytes: int):
    return rl.empty(nbytes, dtype=rl.uint8, device="cuda")


@pytest.fixture
def growing(silent):
    """(the provider, the library), with segments that grow."""
    provider, library = silent
    chosen("expandable_segments:True")
    provider.board(0), provider.board(1)
    library.before = library[RESERVED]
    return silent


def given(library) -> int:
    """Bytes of the device that the library has given, without the host's pinned ones."""
    return library[RESERVED] - library.before


def expandable_segments() -> list:
    return [one for one in rl.cuda.memory_snapshot() if one["is_expandable"]]


def test_a_segment_grows_and_shrinks_at_its_end(growing):
    provider, library = growing
    first = of(70 * MEGABYTE)
    one, = expandable_segments()
    assert one["total_size"] == 80 * MEGABYTE == given(library) == rl.cuda.memory_reserved()
    second = of(100 * MEGABYTE)
    assert second.data_ptr() == first.data_ptr() + 70 * MEGABYTE
    grown, = expandable_segments()
    assert grown["address"] == one["address"] and grown["total_size"] == 176 * MEGABYTE
    assert not library.notes("cuMemAlloc_v2")
    del second
    rl.cuda.empty_cache()
    shrunk, = expandable_segments()
    assert shrunk["total_size"] == 80 * MEGABYTE == given(library)
    again = of(MEGABYTE * 200)
    assert again.data_ptr() == first.data_ptr() + 70 * MEGABYTE
    again.fill_(1)
    del first, again
    rl.cuda.empty_cache()
    assert not library[HANDLES] and not library[MAPPINGS] and not library[RESERVATIONS]
    assert rl.cuda.memory_reserved() == 0 == given(library)


def test_free_memory_of_any_sizes_is_one(growing):
    """What blocks of some sizes have left serves one of another size."""
    provider, library = growing
    held = [of(10 * MEGABYTE) for _ in range(32)]
    reserved = rl.cuda.memory_reserved()
    del held
    large = of(300 * MEGABYTE)
    assert rl.cuda.memory_reserved() == reserved == given(library)
    large.fill_(3)


def test_without_it_they_stay_apart(silent):
    held = [of(10 * MEGABYTE) for _ in range(32)]
    reserved = rl.cuda.memory_reserved()
    del held
    assert of(300 * MEGABYTE).numel() and rl.cuda.memory_reserved() > reserved


def test_blocks_never_overlap(growing):
    """Random sizes and lifetimes: blocks in use lie apart, within memory that may be touched, and figures add up."""
    provider, library = growing
    draw, held = random.Random(7), []
    for step in range(600):
        if held and draw.random() < 0.5:
            held.pop(draw.randrange(len(held)))
        else:
            held.append(of(int(2 ** draw.uniform(4, 27.5))))
            held[-1][-1:].fill_(1)
        if step % 150 == 149:
            rl.cuda.empty_cache()
        ends = sorted((x._rush_storage.address, x._rush_storage.address + x._rush_storage.nbytes) for x in held)
        assert all(end <= start for (_, end), (start, _) in zip(ends, ends[1:]))
    blocks = [b for one in rl.cuda.memory_snapshot() for b in one["blocks"]]
    assert sum(b["size"] for b in blocks) == rl.cuda.memory_reserved() == given(library)
    assert sum(b["size"] for b in blocks if b["state"] == "active_allocated") == rl.cuda.memory_allocated()
    assert {b["address"] for b in blocks if b["state"] == "active_allocated"} == {x.data_ptr() for x in held}
    held.clear()
    gc.collect()
    rl.cuda.empty_cache()
    assert not library[HANDLES] and not library[RESERVATIONS]


def test_sizes_that_change_take_less(silent):
    """Steps whose sizes differ each time keep fewer bytes than segments of the driver do."""
    kept = {}
    for grows in (False, True):
        gc.collect()
        rl.cuda.empty_cache()
        chosen(f"expandable_segments:{grows}")
        draw = random.Random(3)
        for _ in range(30):
            width = draw.randrange(64, 4096)
            held = [of(width * 4096) for _ in range(12)]
            held = [of(width * 2048) for _ in range(6)]
        kept[grows] = rl.cuda.memory_reserved()
        del held
    assert kept[True] < 0.6 * kept[False]


def test_streams_and_pools_have_their_own(growing):
    provider, library = growing
    x = of(70 * MEGABYTE)
    with rl.cuda.Stream():
        y = of(70 * MEGABYTE)
    pool = rl.cuda.MemPool()
    with rl.cuda.use_mem_pool(pool):
        z = of(70 * MEGABYTE)
    assert len({one["address"] for one in expandable_segments()}) == 3
    assert [one["segment_pool_id"] for one in expandable_segments()].count(pool.id) == 1
    del x, y, z
    rl.cuda.empty_cache()
    assert len(expandable_segments()) == 1  # the pool's
    del pool
    gc.collect()
    assert not expandable_segments() and not library[HANDLES]


def test_a_graph_keeps_its_memory(growing):
    provider, library = growing
    x, graph = rl.ones(1 << 22, device="cuda"), rl.cuda.CUDAGraph()
    x + 1
    rl.cuda.synchronize()
    with rl.cuda.graph(graph):
        y = x + 1
        y = y * 2
    held = rl.cuda.memory_reserved()
    rl.cuda.empty_cache()
    assert y.numel() and rl.cuda.memory_reserved() >= held - 16 * MEGABYTE
    graph.replay()
    rl.cuda.synchronize()


def test_unmapping_waits_for_work(as_before, monkeypatch, tmp_path):
    """The library refuses to unmap memory while work waits."""
    provider, library = provided(monkeypatch, tmp_path, computes=False, lazy=True)
    chosen("expandable_segments:True")
    pool = rl.cuda.MemPool()
    with rl.cuda.use_mem_pool(pool):
        of(70 * MEGABYTE).fill_(1)
    del pool
    gc.collect()
    assert not library[HANDLES]
    of(70 * MEGABYTE).fill_(1)
    rl.cuda.empty_cache()
    assert not library[HANDLES]


def test_memory_that_is_short(growing):
    """What fails midway leaves nothing behind, and kept memory is given back first."""
    provider, library = growing
    of(1)
    library.state[LIMIT] = 256 * MEGABYTE
    x = of(100 * MEGABYTE)
    with pytest.raises(rl.OutOfMemoryError, match="Tried to allocate"):
        of(200 * MEGABYTE)
    assert given(library) == rl.cuda.memory_reserved()
    del x
    with rl.cuda.Stream():
        assert of(200 * MEGABYTE).numel()
    rl.cuda.empty_cache()
    with library.failing("cuMemMap", NO_MEMORY), pytest.raises(rl.OutOfMemoryError):
        of(200 * MEGABYTE)
    with library.failing("cuMemSetAccess", NO_MEMORY), pytest.raises(rl.OutOfMemoryError):
        of(200 * MEGABYTE)
    assert given(library) == rl.cuda.memory_reserved() and not library[MAPPINGS]


def test_the_library_checks_what_it_is_asked(growing):
    """What the tests above are good for."""
    provider, library = growing
    virtual = provider.board(0).memory.source(provider.board(0).queue).virtual
    with pytest.raises(rl.AcceleratorError, match=f"gave {INVALID}"):
        virtual.reserve(GRANULARITY + 1)
    address = virtual.reserve(8 * GRANULARITY)
    handle = virtual.back(address, 2 * GRANULARITY)
    for where in (address, address + GRANULARITY, address + 7 * GRANULARITY, address + 5):
        with pytest.raises(rl.AcceleratorError, match=f"cuMemMap gave {INVALID}"):
            virtual.back(where, 2 * GRANULARITY)
    for call in (lambda: virtual.forget(address, 8 * GRANULARITY),
                 lambda: virtual.call("MemUnmap", address, GRANULARITY)):
        with pytest.raises(rl.AcceleratorError, match=f"gave {INVALID}"):
            call()
    virtual.bare(address, 2 * GRANULARITY, handle)
    virtual.forget(address, 8 * GRANULARITY)
    assert not library[HANDLES] and not library[RESERVATIONS]


def test_a_driver_without_virtual_memory(silent):
    provider, library = silent
    chosen("expandable_segments:True")
    with library.failing("cuMemGetAllocationGranularity", INVALID):
        with pytest.warns(UserWarning, match="expandable_segments is not supported here"):
            x = of(70 * MEGABYTE)
        y = of(80 * MEGABYTE)
    assert x.numel() and y.numel() and not expandable_segments() and library[BLOCKS]
    assert library.asked("cuMemGetAllocationGranularity") == 1


def test_max_split_size(silent):
    """A large block is kept whole for large ones, and goes back to the driver before all others do."""
    provider, library = silent
    chosen("max_split_size_mb:100")
    x = of(102 * MEGABYTE)
    address = x.data_ptr()
    del x
    assert of(98 * MEGABYTE).data_ptr() != address
    small = [of(90 * MEGABYTE), of(80 * MEGABYTE)]
    del small
    library.state[LIMIT] = library[RESERVED] + MEGABYTE
    kept = rl.cuda.memory_stats()["num_alloc_retries"]
    assert of(101 * MEGABYTE).data_ptr() == address  # hardly smaller
    assert of(100 * MEGABYTE + (20 << 20)).numel() and rl.cuda.memory_stats()["num_alloc_retries"] >= kept


def test_garbage_collection(silent):
    """Above the threshold what was free for longest goes back, before memory is short."""
    provider, library = silent
    of(1)
    board = provider.board(0)
    total = board.memory.total
    chosen("garbage_collection_threshold:0.5")
    old = of(total // 4)
    del old
    held = of(total // 5)
    reserved = rl.cuda.memory_reserved()
    more = of(total // 8)
    assert rl.cuda.memory_reserved() < reserved + more.numel() and held.numel()
    assert not rl.cuda.memory_stats()["num_alloc_retries"]


def test_rounding(silent):
    of(1)
    chosen("roundup_power2_divisions:4")
    for asked, given in ((1200, 1280), (5000, 5120), (5200, 6144), (65537, 81920), (80 * MEGABYTE, 80 * MEGABYTE),
                         (81 * MEGABYTE, 96 * MEGABYTE)):
        before = rl.cuda.memory_allocated()
        x = of(asked)
        assert rl.cuda.memory_allocated() - before == (given if asked > 2048 else 1280), asked
        del x
    chosen("roundup_power2_divisions:[64:1,256:2,>:4]")
    assert choices.rounded(100 * MEGABYTE) == 128 * MEGABYTE and choices.rounded(40 * MEGABYTE) == 40 * MEGABYTE
    assert choices.rounded(300 * MEGABYTE) == 320 * MEGABYTE


@pytest.mark.parametrize("text, error, words", [
    ("max_split_size_mb:10", ValueError, "too small, must be >= 20"),
    ("garbage_collection_threshold:1.5", ValueError, r"set it in \(0.0, 1.0\)"),
    ("garbage_collection_threshold:a", ValueError, r"set it in \(0.0, 1.0\)"),
    ("roundup_power2_divisions:3", ValueError, "power of 2"),
    ("roundup_power2_divisions:64", ValueError, "eight sizes for each doubling"),
    ("expandable_segments:maybe", ValueError, "Expected 'True' or 'False'"),
    ("max_split_size_mb", ValueError, "an integer"),
    ("backend:cudaMallocAsync", RuntimeError, "this allocator"),
    ("expandable_segments:True,nothing:1", RuntimeError, "Unrecognized key 'nothing'"),
])
def test_what_is_refused_changes_nothing(silent, text, error, words):
    before = dict(vars(choices))
    with pytest.raises(error, match=words):
        chosen(text)
    assert vars(choices) == before


def test_settings_of_the_environment(as_before, monkeypatch, tmp_path):
    monkeypatch.setattr(rl._src.core.settings.settings, "allocator_cuda",
                        "expandable_segments:True,max_split_size_mb:64,backend:cudaMallocAsync")
    with pytest.warns(UserWarning, match="not followed in backend:cudaMallocAsync"):
        provided(monkeypatch, tmp_path, computes=False)
    assert choices.expandable_segments and choices.max_split_size == 64 * MEGABYTE
    assert of(70 * MEGABYTE).numel() and expandable_segments()
