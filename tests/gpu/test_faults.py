"""What goes wrong amid other work: memory that ends within a recording, finalizers of other devices, drivers that
fail."""
import gc
import logging
import sys
import threading
import types

import pytest

import rushlight as rl
from rushlight._src.core.errors import AcceleratorError, OutOfMemoryError
from rushlight._src.devices.triton import binaries, runner, tuning
from rushlight._src.devices.triton.binaries import Binary, Unfit
from rushlight._src.devices.triton.driver import NVIDIA
from rushlight._src.devices.triton.programs import Launches

from .stub import GRAPHS, LAZY, LIMIT, PROGRAMS, RESERVED
from .test_tuning import clock, multiplied, own_cache  # noqa: F401 - fixtures


def test_what_is_let_go_of_leaves_the_thread_on_its_device(silent):
    """A block of another GPU that other streams used is marked by events there; the next launch is for this GPU."""
    provider, library = silent
    stream = rl.cuda.Stream("cuda:1")
    x, held = rl.ones(8, device="cuda:0"), rl.ones(8, device="cuda:1")
    held.record_stream(stream)
    y = x + 1
    library.clear()
    del held
    gc.collect()
    provider.board(1).memory.returned()
    assert library.notes("cuEventRecord") and provider.driver.own.index == 0
    assert (y * 2).device.index == 0 and library.notes("cuLaunchKernel")


def test_pinned_memory_of_another_device(silent):
    provider, library = silent
    library.state[LAZY] = 2
    rl.ones(4, device="cuda:0") + 1
    host = rl.ones(64).pin_memory()
    host.to("cuda:1", non_blocking=True)
    x = rl.ones(4, device="cuda:0") + 1
    del host
    gc.collect()
    assert provider.driver.own.index == 0 and (x + 1).shape == (4,)
    library.state[LAZY] = 0


def test_memory_that_ends_within_a_recording(silent):
    """The error says that memory has ended; the stream is not recorded any more, and there is no graph."""
    provider, library = silent
    x, graph = rl.ones(4, device="cuda"), rl.cuda.CUDAGraph()
    with pytest.raises(OutOfMemoryError, match="Tried to allocate"):
        with rl.cuda.graph(graph):
            library.state[LIMIT] = library[RESERVED]
            rl.empty(1 << 28, device="cuda")
    library.state[LIMIT] = 1 << 34
    assert not rl.cuda.is_current_stream_capturing() and library[GRAPHS] == library[PROGRAMS] == 0
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with rl.cuda.graph(graph):
        y = x + 1
    graph.replay()
    assert y.shape == (4,)


def test_a_program_that_has_no_room_to_be_recorded(silent):
    """It runs launch by launch, in memory that others let go of."""
    provider, library = silent
    f = rl.compile(lambda x: (x + 1).relu() @ x, mode="reduce-overhead")
    x = rl.ones(1 << 12, 1 << 12, device="cuda")
    f(x)
    library.state[LIMIT] = library[RESERVED]
    for _ in range(3):
        assert f(x).shape == x.shape
    library.state[LIMIT] = 1 << 34
    assert not library[PROGRAMS]


def test_an_error_amid_a_recording(silent):
    provider, library = silent
    x, graph = rl.ones(4, device="cuda"), rl.cuda.CUDAGraph()
    with pytest.raises(ZeroDivisionError):
        with rl.cuda.graph(graph):
            x + 1
            1 / 0
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    assert (x + 1).shape == (4,) and library[GRAPHS] == 0


def test_the_driver_says_what_went_wrong(silent):
    provider, library = silent
    x = rl.ones(4, device="cuda") + 1
    with library.failing("cuLaunchKernel", 719), pytest.raises(AcceleratorError,
                                                               match="cuLaunchKernel gave 719") as seen:
        x * 3
    assert seen.value.error_code == 719 and rl.AcceleratorError is AcceleratorError
    assert (x * 3).shape == (4,)


@pytest.mark.parametrize("entry, status", [("cuLaunchKernel", 719), ("cuModuleLoadData", 700)])
def test_the_tuner_takes_no_fault_for_a_tile(clock, silent, own_cache, entry, status):  # noqa: F811
    provider, library = silent
    with library.failing(entry, status), pytest.raises(AcceleratorError, match=f"gave {status}"):
        multiplied(700)


def test_the_tuner_without_room(clock, silent, own_cache, caplog, monkeypatch):  # noqa: F811
    """What cannot be measured for want of memory is taken as the model of cost says, and not remembered."""
    caplog.set_level(logging.DEBUG, "rushlight.autotune")

    def no_room(self, plan):
        raise OutOfMemoryError("no room", "less", "less")

    monkeypatch.setattr(tuning.Bench, "wrong", no_room)
    assert multiplied(900).shape == (900, 900)
    assert "is not measured, but taken" in caplog.text
    monkeypatch.undo()


def test_streams_are_few(silent):
    """PyTorch's 32 of a priority, in turns."""
    provider, library = silent
    made = [rl.cuda.Stream().stream_id for _ in range(100)]
    assert len(set(made)) == 32 and made[:32] == made[32:64]
    assert rl.cuda.Stream(priority=-1).stream_id not in made


def test_threads_share_programs_not_streams(silent):
    """A launch that was made for other alignments is written anew and given once, whatever other threads do with the
    same program meanwhile."""
    provider, library = silent
    board, each = provider.board(0), 300
    board.blocking = True  # so that every call comes through Python
    tensors = [rl.zeros(32, device="cuda") for _ in range(4)]
    views = [[x[k:k + 8] for k in (0, 1)] for x in tensors]
    for pair in views:
        for x in pair:
            x.add_(1)
    streams = [rl.cuda.Stream() for _ in tensors]
    wrong, before = [], library.asked("cuLaunchKernel")

    def work(stream, pair):
        try:
            with rl.cuda.stream(stream):
                for k in range(each):
                    pair[k % 2].add_(1)
        except BaseException as reason:  # noqa: BLE001 - shown below
            wrong.append(reason)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=pair) for pair in zip(streams, views)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong and library.asked("cuLaunchKernel") - before == 4 * each


def test_errors_leave_streams_as_they_were(silent):
    provider, library = silent
    x = rl.ones(4, device="cuda")
    for entry in ("cuStreamBeginCapture_v2", "cuGraphInstantiateWithFlags"):
        with library.failing(entry, 719), pytest.raises(AcceleratorError), rl.cuda.graph(rl.cuda.CUDAGraph()):
            x + 1
        assert rl.cuda.current_stream().stream_id == 0 and not rl.cuda.is_current_stream_capturing()
    with pytest.raises(RuntimeError), rl.cuda.graph(rl.cuda.CUDAGraph()):
        with rl.cuda.graph(rl.cuda.CUDAGraph()):
            x + 1
    assert not rl.cuda.is_current_stream_capturing() and (x + 1).shape == (4,)


def test_guards_in_generators(silent):
    """A generator that is closed, or that others run between, gives back what it has changed."""
    side = rl.cuda.Stream()

    def steps():
        with rl.cuda.stream(side):
            yield rl.cuda.current_stream().stream_id
            yield

    one = steps()
    assert next(one) == side.stream_id
    one.close()
    assert rl.cuda.current_stream().stream_id == 0


def test_copies_that_would_wait_are_refused_whole(silent):
    """What may not be waited for does not happen."""
    library = silent[1]
    x, y = rl.ones(4, device="cuda"), rl.ones(4)
    rl.cuda.synchronize()
    library.clear()
    try:
        rl.cuda.set_sync_debug_mode("error")
        for call in (x.cpu, lambda: y.to("cuda"), lambda: x.copy_(y)):
            with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
                call()
        assert not library.notes(*(NVIDIA.names[name] for name in ("upload", "download", "copy")))
    finally:
        rl.cuda.set_sync_debug_mode(0)


def test_shared_memory_that_a_device_does_not_give(silent):
    """The driver's "invalid value" means that where shared memory is set, and nowhere else."""
    provider, library = silent
    board = provider.board(0)
    made = Binary(b"STUB" + bytes(4) + b"f\0", "f", 64 << 10, 128)
    refused = pytest.raises(Unfit, match="needs 65536 bytes of shared memory")
    with library.failing(NVIDIA.names["function_set"], 1), refused:
        board.driver.kernel(made)
    for entry, status in (("function_set", 700), ("load", 1)):
        with library.failing(NVIDIA.names[entry], status), pytest.raises(AcceleratorError, match=f"gave {status}"):
            board.driver.kernel(made)


def test_what_a_compiler_cannot_make(monkeypatch):
    """A want of resources is told apart from a fault, which no other choice fixes."""
    def compiled(*given):
        raise raised

    errors = types.SimpleNamespace(TritonError=type("TritonError", (Exception,), {}))
    monkeypatch.setattr(binaries, "imported", lambda: types.SimpleNamespace(__version__="0", errors=errors))
    monkeypatch.setattr(binaries, "compiled", compiled)
    for raised, seen in ((errors.TritonError("no"), Unfit), (RuntimeError("out of resource: shared memory"), Unfit),
                         (RuntimeError("no such file"), RuntimeError)):
        with pytest.raises(RuntimeError) as found:
            binaries.binary(types.SimpleNamespace(name="m"), binaries.Variant(16), "sm_90")
        assert type(found.value) is seen


def test_words_of_launches_are_written_once():
    """Memory that is far away, then near, and far again: plans know two blocks."""
    launches, board = Launches([]), types.SimpleNamespace(memory=types.SimpleNamespace(words=[0]))
    for far in (0, 1) * 10:
        board.memory.words[0] = far
        launches.prepare(board, 0)
        assert launches.block[runner.WIDE] == far
    assert len(launches.blocks) == 2


def test_who_waits_is_told(silent):
    x = rl.ones(4, device="cuda")
    assert rl.cuda.get_sync_debug_mode() == 0
    try:
        rl.cuda.set_sync_debug_mode("warn")
        with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
            x.cpu()
        rl.cuda.set_sync_debug_mode(2)
        with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
            x.sum().item()
        rl.ones(4).pin_memory().to("cuda", non_blocking=True)
        rl.cuda.synchronize()
        for mode in ("loud", 3):
            with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
                rl.cuda.set_sync_debug_mode(mode)
    finally:
        rl.cuda.set_sync_debug_mode(0)
