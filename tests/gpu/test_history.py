"""What happened to a GPU's memory, who holds it when it is short, and allocators of the program's own."""
import gc
import importlib.util
import pickle
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight._src.devices.cpu.llvm import jit
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.types import i32, i64, ptr
from rushlight._src.devices.cpu.llvm.values import Value, constant
from rushlight._src.packages.objects import SharedObject

from .recorded import provided
from .stub import LIMIT, RESERVED

MEGABYTE = 1 << 20
record = rl.cuda.memory._record_memory_history
HERE = "test_history.py"


def of(nbytes: int):
    return rl.empty(nbytes, dtype=rl.uint8, device="cuda")


def trace() -> list:
    return rl.cuda.memory._snapshot()["device_traces"][0]


def actions() -> list:
    return [one["action"] for one in trace()]


def named(frames) -> bool:
    """Whether this file is among the lines."""
    return any(one["filename"].endswith(HERE) and one["line"] > 0 for one in frames)


@pytest.fixture
def noted(silent):
    rl.ones(4, device="cuda") + 1
    gc.collect()
    record()
    yield silent
    record(enabled=None)


def test_events_of_a_block(noted):
    x = of(70 * MEGABYTE)
    address = x.data_ptr()
    del x
    assert actions() == ["segment_alloc", "alloc", "free_requested", "free_completed"]
    assert all(one["addr"] == address and one["size"] == 70 * MEGABYTE and one["stream"] == 0 for one in trace())
    assert all(named(one["frames"]) for one in trace())
    times = [one["time_us"] for one in trace()]
    assert times == sorted(times) and times[0] > 1 << 50
    rl.cuda.empty_cache()
    assert ("segment_free", address) in [(one["action"], one["addr"]) for one in trace()]


def test_every_block_of_a_program_is_seen(noted):
    """Launches of the hot path are none the less noted: what is taken and given back adds up."""
    before = {b["address"] for one in rl.cuda.memory_snapshot() for b in one["blocks"] if b["state"] != "inactive"}
    x = rl.ones(1000, device="cuda", requires_grad=True)
    for _ in range(3):
        (x.exp() * 2).sum().backward()
    live = set(before)
    for one in trace():
        if one["action"] == "alloc":
            assert one["addr"] not in live
            live.add(one["addr"])
        elif one["action"] == "free_completed":
            live.remove(one["addr"])
    assert actions().count("alloc") >= 12
    assert live == {b["address"] for one in rl.cuda.memory_snapshot() for b in one["blocks"]
                    if b["state"] != "inactive"}
    block, = (b for one in rl.cuda.memory_snapshot() for b in one["blocks"] if b["address"] == x.data_ptr())
    assert block["requested_size"] == 4000 and block["size"] == 4096 and named(block["frames"])


def test_blocks_from_before_it(silent):
    x = of(5000)
    address = x.data_ptr()
    record()
    del x
    y = of(100)
    freed = [one["action"] for one in trace() if one["addr"] == address]
    assert freed == ["free_requested", "free_completed"] and y.numel()
    record(enabled=None)
    kept = of(5000)
    assert kept.data_ptr() == address and trace() == []


def test_what_is_kept(noted):
    for context, allocated, freed in (("all", True, True), ("alloc", True, False), ("state", False, False),
                                      (None, False, False)):
        record(context=context, clear_history=True)
        x = of(4000)
        block, = (b for one in rl.cuda.memory_snapshot() for b in one["blocks"] if b["address"] == x.data_ptr())
        assert named(block["frames"]) is (context is not None)
        del x
        found = trace()
        assert named(found[0]["frames"]) is allocated and named(found[1]["frames"]) is freed
    record(enabled="state", clear_history=True)
    x = of(4000)
    assert trace() == [] and x.numel()
    record(max_entries=3, clear_history=True)
    for _ in range(5):
        of(4000)
    assert actions() == ["alloc", "free_requested", "free_completed"]
    record(skip_actions=["free_requested"], clear_history=True)
    of(4000)
    assert actions() == ["alloc", "free_completed"]


@pytest.mark.parametrize("given, error", [
    ({"enabled": "some"}, ValueError), ({"context": "some"}, ValueError), ({"stacks": "c"}, ValueError),
    ({"skip_actions": ["nothing"]}, ValueError), ({"compile_context": True}, NotImplementedError)])
def test_what_means_nothing_is_refused(silent, given, error):
    with pytest.raises(error):
        record(**given)
    assert not silent[0].board(0).memory.noted


def test_segments_that_grow(noted):
    rl.cuda.memory._set_allocator_settings("expandable_segments:True")
    x = of(70 * MEGABYTE)
    del x
    rl.cuda.empty_cache()
    found = trace()
    assert [one["action"] for one in found][:4] == ["segment_map", "alloc", "free_requested", "free_completed"]
    mapped = sum(one["size"] for one in found if one["action"] == "segment_map")
    assert mapped == sum(one["size"] for one in found if one["action"] == "segment_unmap") == 80 * MEGABYTE


def test_a_block_of_another_stream_is_completed_later(as_before, monkeypatch, tmp_path):
    provider, library = provided(monkeypatch, tmp_path, computes=False, lazy=True)
    stream = rl.cuda.Stream()
    of(6000)
    record()
    x = of(6000)
    with stream:
        x.fill_(1)
    x.record_stream(stream)
    del x
    assert actions() == ["alloc", "free_requested"]
    stream.synchronize()
    provider.board(0).memory.returned()
    assert actions()[-1] == "free_completed"
    record(enabled=None)


VIEWER = """
import pickle, sys
from torch.cuda import _memory_viz as viewer
data = pickle.load(open(sys.argv[1], "rb"))
assert "total_allocated" in viewer.segsum(data)  # it adds up blocks, and refuses what does not
assert "cudaMalloc" in viewer.trace(data)
assert "test_history.py" in viewer.memory(data, format_flamegraph=str)
assert "active_allocated" in viewer.segments(data, format_flamegraph=str)
for plot in (viewer.trace_plot, viewer.segment_plot):
    assert len(plot(data)) > 1000
"""


def test_the_viewer_reads_a_snapshot(noted, tmp_path):
    held = [of(int(n)) for n in (100, 5000, 3e6, 7e7)]
    del held[1]
    path = tmp_path / "snapshot.pickle"
    rl.cuda.memory._dump_snapshot(str(path))
    with open(path, "rb") as file:
        assert set(pickle.load(file)) >= {"segments", "device_traces", "allocator_settings"}
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch, whose viewer reads the file, is not installed")
    done = subprocess.run([sys.executable, "-c", VIEWER, str(path)], capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr


def test_who_holds_memory_when_it_is_short(noted):
    provider, library = noted
    seen = []
    rl._C._cuda_attach_out_of_memory_observer(lambda *given: seen.append((given, rl.cuda.memory._snapshot())))
    library.state[LIMIT] = library[RESERVED] + 100 * MEGABYTE
    x = of(80 * MEGABYTE)
    with pytest.raises(rl.OutOfMemoryError, match=r"83886080 bytes of shape \[83886080\] .*test_history.py:\d+"):
        of(90 * MEGABYTE)
    (device, asked, total, free), snapshot = seen[0]
    assert device == 0 and asked == 90 * MEGABYTE and 0 <= free <= total and len(seen) == 1
    assert snapshot["device_traces"][0][-1]["action"] == "oom" and x.numel()
    assert snapshot["device_traces"][0][-1]["device_free"] == free


def allocator(folder) -> str:
    """A library with ``give``, ``take`` and what they have counted, from our own code generator."""
    module = Module()
    module.data("counts", "[2 x i64]")

    def counted(f, word, by):
        f.atomic_update("add", f.offset(Value("@counts", ptr), word, i64), by)

    f = module.function("give", [("size", i64), ("index", i32), ("stream", ptr)], ptr)
    counted(f, 0, constant(i64, 1))
    counted(f, 1, f.parameters[0])
    f.ret(f.call("calloc", [f.parameters[0], constant(i64, 1)], ptr))
    f = module.function("take", [("place", ptr), ("size", i64), ("index", i32), ("stream", ptr)])
    counted(f, 0, constant(i64, -1))
    counted(f, 1, f.sub(0, f.parameters[1]))
    f.call("free", [f.parameters[0]])
    f.ret()
    f = module.function("counted", [("word", i64)], i64)
    f.ret(f.load(i64, f.offset(Value("@counts", ptr), f.parameters[0], i64)))
    made = SharedObject()
    made.add_object(jit.compile_object(module.text()))
    path = folder / "own-allocator.so"
    path.write_bytes(made.image(("give", "take", "counted"), "own-allocator.so"))
    return str(path)


def test_an_allocator_of_the_programs_own(silent, tmp_path):
    own = rl.cuda.memory.CUDAPluggableAllocator(allocator(tmp_path), "give", "take")
    assert rl.cuda.get_allocator_backend() == "native"
    rl.cuda.memory.change_current_allocator(own)
    assert rl.cuda.get_allocator_backend() == "pluggable"
    x = rl.ones(1000, device="cuda")
    y, none = x + 1, rl.empty(0, device="cuda").clone()  # nobody is asked for the memory of no elements
    counted = own._library.counted
    assert counted(0) == 2 and counted(1) == 8000 == rl.cuda.memory_allocated() and y.numel()
    assert none.shape == (0,)
    del x, y, none
    gc.collect()
    assert counted(0) == 0 == counted(1) == rl.cuda.memory_allocated()
    with pytest.raises(RuntimeError, match="already initialized"):
        rl.cuda.memory.change_current_allocator(own)
    with pytest.raises(AttributeError):
        rl.cuda.memory.CUDAPluggableAllocator(str(tmp_path / "own-allocator.so"), "give", "nothing")


def test_pools(silent, tmp_path):
    """A pool's segments come from functions of the program's own; blocks may have segments of their own; what is free
    in it may serve others where memory is short."""
    provider, library = silent
    own = rl.cuda.memory.CUDAPluggableAllocator(allocator(tmp_path), "give", "take")
    pool = rl.cuda.MemPool(own.allocator())
    with rl.cuda.use_mem_pool(pool):
        x, y = of(100), of(200)
    counted = own._library.counted
    assert counted(0) == 1 and counted(1) == pool.snapshot()[0]["total_size"] == 4 * MEGABYTE
    del x, y, pool
    gc.collect()
    assert counted(0) == 0
    pool = rl.cuda.MemPool(no_split=True)
    with rl.cuda.use_mem_pool(pool):
        x, y = of(100), of(200)
    assert len(pool.snapshot()) == 2 and x.numel() and y.numel()
    pool = rl.cuda.MemPool(use_on_oom=True)
    with rl.cuda.use_mem_pool(pool):
        z = of(90 * MEGABYTE)
    address = z.data_ptr()
    del z
    library.state[LIMIT] = library[RESERVED] + MEGABYTE
    w = of(88 * MEGABYTE)
    assert w.data_ptr() == address
    with pytest.raises(TypeError):
        rl.cuda.MemPool(allocator=3)


def test_memory_by_address(silent):
    with rl.cuda.Stream() as stream:
        pass
    before = rl.cuda.memory_allocated()
    address = rl.cuda.caching_allocator_alloc(5000, stream=stream)
    assert rl.cuda.memory_allocated() == before + 5120
    rl.cuda.caching_allocator_delete(address)
    assert rl.cuda.memory_allocated() == before
    with pytest.raises(RuntimeError, match="invalid device pointer"):
        rl.cuda.caching_allocator_delete(address)


def test_memory_that_is_not_kept(silent):
    """Each tensor's is asked of the driver and goes back, those of before and after come from segments; while a graph
    is recorded all do."""
    provider, library = silent
    before = of(100)
    held = library.asked("cuMemFree_v2")
    with rl.cuda.memory.caching_allocator_disabled():
        x = of(100)
        taken = library.asked("cuMemAlloc_v2")
        y = of(200)
        assert library.asked("cuMemAlloc_v2") == taken + 1
        del x, before
        assert library.asked("cuMemFree_v2") == held + 1  # the other one's segment is kept
        graph = rl.cuda.CUDAGraph()
        with rl.cuda.graph(graph):
            z, held = of(300), library.asked("cuMemFree_v2")
            del y
            assert library.asked("cuMemFree_v2") == held
        w = of(50)
        del w
        assert library.asked("cuMemFree_v2") == held + 2 and z.numel()
        del z, graph
    x = of(100)
    address, reserved = x.data_ptr(), rl.cuda.memory_reserved()
    del x
    assert of(100).data_ptr() == address and rl.cuda.memory_reserved() == reserved > 0


def test_an_allocator_of_the_programs_own_keeps_what_it_likes(silent, tmp_path):
    rl.cuda.memory.change_current_allocator(rl.cuda.memory.CUDAPluggableAllocator(allocator(tmp_path), "give", "take"))
    with pytest.raises(RuntimeError, match="own allocator"):
        rl.cuda.caching_allocator_enable(False)
