"""Memory of a GPU: what several streams use, figures, limits, pinned memory of the host, and other GPUs."""
import gc
import threading

import pytest

import rushlight as rl
from rushlight.utils.data import DataLoader, TensorDataset

from .recorded import provided
from .stub import BLOCKS, LAZY, LIMIT, PINNED


@pytest.fixture
def late(as_before, monkeypatch, tmp_path):
    """(the provider, a library that does work when it is waited for); kernels are only noted."""
    return provided(monkeypatch, tmp_path, computes=False, lazy=True)


def test_what_another_stream_uses_is_kept(late):
    provider, library = late
    stream = rl.cuda.Stream()
    x, host = rl.full((64,), 7.0).to("cuda"), rl.empty(64).pin_memory()
    address = x.data_ptr()
    library.state[LAZY] = 2
    with stream:
        host.copy_(x, non_blocking=True)
    x.record_stream(stream)
    del x
    y = rl.full((64,), 9.0).to("cuda")
    assert y.data_ptr() != address
    assert rl.cuda.memory_snapshot()[0]["blocks"][0]["state"] == "active_pending_free"
    stream.synchronize()
    assert host.tolist() == [7.0] * 64
    provider.board(0).memory.returned()
    assert rl.empty(64, device="cuda").data_ptr() == address


def test_without_it_the_copy_comes_too_late(late):
    """What the test above is good for: the library does as a GPU may."""
    stream = rl.cuda.Stream()
    x, host = rl.full((64,), 7.0).to("cuda"), rl.empty(64).pin_memory()
    with stream:
        host.copy_(x, non_blocking=True)
    del x
    y = rl.full((64,), 9.0).to("cuda")
    stream.synchronize()
    assert host.tolist() == [9.0] * 64 and y.shape == (64,)


def test_events_order_streams(late):
    stream, x = rl.cuda.Stream(), rl.full((64,), 7.0).to("cuda")
    before, after = rl.full((64,), 3.0).pin_memory(), rl.empty(64).pin_memory()
    x.copy_(before, non_blocking=True)
    stream.wait_stream(rl.cuda.current_stream())
    with stream:
        after.copy_(x, non_blocking=True)
    stream.synchronize()
    assert after.tolist() == [3.0] * 64


def test_pinned_memory_waits_for_its_copies(late):
    provider, library = late
    x = rl.empty(64, device="cuda")
    host = rl.full((64,), 5.0).pin_memory()
    address = host.data_ptr()
    assert host.is_pinned()
    library.state[LAZY] = 2
    x.copy_(host, non_blocking=True)
    del host
    other = rl.full((64,), 6.0).pin_memory()
    assert other.data_ptr() != address
    assert x.tolist() == [5.0] * 64
    pinned = library[PINNED]
    del other
    rl.cuda.synchronize()
    assert rl.full((64,), 6.0).pin_memory().data_ptr() and library[PINNED] == pinned
    gc.collect()
    provider.trim(0)
    assert library[PINNED] < pinned


def test_a_loader_pins_its_batches(silent):
    rl.empty(1, device="cuda")
    data = TensorDataset(rl.arange(6.0), rl.arange(6))
    for x, y in DataLoader(data, batch_size=2, pin_memory=True):
        assert x.is_pinned() and y.is_pinned()
        assert x.to("cuda", non_blocking=True).tolist() == x.tolist()


def test_figures(silent):
    rl.empty(1, device="cuda")
    gc.collect()
    before = rl.cuda.memory_stats()
    x = rl.empty(1000, device="cuda")
    stats = rl.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] - before["allocated_bytes.all.current"] == 4096
    assert stats["allocation.all.allocated"] == before["allocation.all.allocated"] + 1
    assert rl.cuda.memory_stats_as_nested_dict()["allocation"]["all"]["current"] == stats["allocation.all.current"]
    blocks = [block for one in rl.cuda.memory._snapshot()["segments"] for block in one["blocks"]]
    assert any(b["address"] == x.data_ptr() and b["state"] == "active_allocated" for b in blocks)
    assert sum(b["size"] for b in blocks) == rl.cuda.memory_reserved()
    assert sum(b["size"] for b in blocks if b["state"] == "active_allocated") == rl.cuda.memory_allocated()
    assert "allocated_bytes" in rl.cuda.memory_summary()
    del x
    rl.cuda.reset_peak_memory_stats()
    rl.cuda.reset_accumulated_memory_stats()
    stats = rl.cuda.memory_stats()
    assert stats["allocation.all.freed"] == 0 and rl.cuda.max_memory_allocated() == rl.cuda.memory_allocated()


def test_all_sizes_have_blocks(silent):
    """Blocks of any size do not overlap, and are used again."""
    held = [rl.empty(n, dtype=rl.uint8, device="cuda") for n in (0, 1, 255, 257, 5000, 1 << 20, (1 << 23) + 1, 1 << 27)]
    ends = sorted((x._rush_storage.address, x._rush_storage.address + x._rush_storage.nbytes) for x in held)
    assert all(end <= start for (_, end), (start, _) in zip(ends, ends[1:]))
    places = [x._rush_storage.address for x in held]
    del held
    again = [rl.empty(n, dtype=rl.uint8, device="cuda")._rush_storage.address
             for n in (0, 1, 255, 257, 5000, 1 << 20, (1 << 23) + 1, 1 << 27)]
    assert set(again) <= set(places)


def test_a_part_of_the_memory(silent):
    rl.empty(1, device="cuda")
    rl.cuda.set_per_process_memory_fraction(0.25)
    assert rl.cuda.memory.get_per_process_memory_fraction() == 0.25
    with pytest.raises(rl.OutOfMemoryError, match="of which this process may have"):
        rl.empty((1 << 32) + 1, dtype=rl.uint8, device="cuda")
    rl.cuda.set_per_process_memory_fraction(1.0)
    assert rl.empty((1 << 31) + 1, dtype=rl.uint8, device="cuda").numel()
    with pytest.raises(ValueError):
        rl.cuda.set_per_process_memory_fraction(2.0)
    rl.cuda.set_per_process_memory_fraction(0.5)
    rl.cuda.memory._set_allocator_settings("expandable_segments:False")
    assert rl.cuda.memory.get_per_process_memory_fraction() == 0.5
    rl.cuda.memory._set_allocator_settings("per_process_memory_fraction:1.0")
    assert rl.cuda.memory.get_per_process_memory_fraction() == 1.0


def test_the_most_segments(silent):
    """The peak is how many there were at once since it was reset."""
    for _ in range(3):
        x = rl.empty(1 << 26, device="cuda")
        del x
        rl.cuda.empty_cache()
    stats = rl.cuda.memory_stats()
    assert (stats["segment.all.current"], stats["segment.all.peak"], stats["segment.all.allocated"]) == (0, 1, 3)
    rl.cuda.reset_peak_memory_stats()
    assert rl.cuda.memory_stats()["segment.all.peak"] == 0


def test_far_positions(silent):
    """Once a block has 2 GiB, positions have 64 bits: the programs of before are made ready anew."""
    provider, library = silent
    library.state[LIMIT] = 1 << 34
    x = rl.ones(8, device="cuda")
    for _ in range(3):
        x + 1
    narrow = library.asked("cuModuleLoadData")
    far = rl.empty(1 << 31, dtype=rl.uint8, device="cuda")
    x + 1
    assert library.asked("cuModuleLoadData") == narrow + 1
    del far
    x + 1
    assert library.asked("cuModuleLoadData") == narrow + 1


def test_alignment_is_not_assumed(silent):
    """A program made ready for aligned addresses is not run for others."""
    provider, library = silent
    x = rl.ones(12, device="cuda")
    for _ in range(3):
        x[4:8] + 1
    known = library.asked("cuModuleLoadData")
    for _ in range(3):
        x[1:5] + 1
    assert library.asked("cuModuleLoadData") == known + 1


def test_copies_between_devices(late):
    x = rl.arange(64.0).to("cuda:1")
    y = x.to("cuda:0")
    assert y.device == rl.device("cuda:0") and y.tolist() == list(range(64))
    provider, library = late
    assert library.notes("cuMemcpyPeerAsync") and rl.cuda.can_device_access_peer(0, 1)
    z = rl.full((64,), 3.0).to("cuda:1")
    y.copy_(z)
    assert y.tolist() == [3.0] * 64


def test_a_pool(silent):
    rl.empty(1, device="cuda")
    pool = rl.cuda.MemPool()
    with rl.cuda.use_mem_pool(pool):
        x = rl.ones(64, device="cuda") + 1
        with rl.cuda.Stream():
            y = x * 2
    z = x + 1
    names = {}
    for one in rl.cuda.memory_snapshot():
        names |= dict.fromkeys((b["address"] for b in one["blocks"]), one["segment_pool_id"])
    assert names[x.data_ptr()] == names[y.data_ptr()] == pool.id != names[z.data_ptr()]
    assert len(pool.snapshot()) == 2
    held = rl.cuda.memory_reserved()
    del x, y
    gc.collect()
    rl.cuda.empty_cache()
    assert rl.cuda.memory_reserved() == held  # it is the pool's
    del pool
    gc.collect()
    assert rl.cuda.memory_reserved() < held


def test_a_pool_that_its_tensors_outlive(silent):
    """What lay in its memory goes back once more is asked of the driver, not before the tensors are gone."""
    rl.empty(1, device="cuda")
    held, pool = rl.cuda.memory_reserved(), rl.cuda.MemPool()
    with rl.cuda.use_mem_pool(pool):
        x = rl.empty(80 << 20, dtype=rl.uint8, device="cuda")
    del pool
    gc.collect()
    y = rl.empty(90 << 20, dtype=rl.uint8, device="cuda")
    assert rl.cuda.memory_reserved() == held + (170 << 20) and x.numel()
    del x
    z = rl.empty(100 << 20, dtype=rl.uint8, device="cuda")
    assert rl.cuda.memory_reserved() == held + (190 << 20) and y.numel() + z.numel()


def test_memory_is_given_back_by_segments(silent):
    provider, library = silent
    held = [rl.empty(1 << 12, dtype=rl.uint8, device="cuda") for _ in range(5000)]
    many = library[BLOCKS]
    del held
    rl.cuda.empty_cache()
    assert library[BLOCKS] < many
    x = rl.ones(1 << 10, device="cuda")
    assert x.shape == (1 << 10,)


def test_lists_change_under_the_lock(late):
    """What is let go of while they change is taken back after."""
    provider, library = late
    board = provider.board(0)
    memory = board.memory
    x = rl.empty(1 << 25, device="cuda")
    address = x.data_ptr()
    with memory.changes():
        del x
        assert not any(memory.large.values())
    assert [row[1] for rows in memory.large.values() for row in rows] == [address]
    x = rl.empty(1 << 25, device="cuda")
    held, free = threading.Event(), threading.Event()

    def holds():
        with board.lock:
            held.set()
            free.wait(60)

    other = threading.Thread(target=holds)
    other.start()
    assert held.wait(60)
    del x
    assert not any(memory.large.values())
    free.set()
    other.join()
    assert rl.empty(1 << 25, device="cuda").data_ptr() == address


def test_streams_are_asked_on_their_device(late, monkeypatch):
    provider, library = late
    host, there = rl.ones(64).pin_memory(), rl.empty(64, device="cuda:1")
    there.copy_(host, non_blocking=True)
    rl.empty(64, device="cuda:0")
    provider.driver.use(0)
    asked, done = [], provider.driver.done

    def noted(entry, handle):
        asked.append((entry, provider.driver.own.index))
        return done(entry, handle)

    monkeypatch.setattr(provider.driver, "done", noted)
    provider.pins.returned()
    assert asked == [("stream_done", 1)]
