"""Graphs of launches: what is recorded, what replays read and write, random numbers, pools, and compiled programs."""
import gc
import threading

import numpy as np
import pytest

import rushlight as rl
from rushlight._src.devices.triton.graphs import Recording
from rushlight._src.devices.triton.recorded import RecordedProgram

from .recorded import provided
from .stub import BLOCKS, GRAPHS, LAZY, PROGRAMS


@pytest.fixture
def late(by_the_interpreter, as_before, monkeypatch, tmp_path):
    """(the provider, a library that does work when it is waited for); kernels are computed."""
    provider, library = provided(monkeypatch, tmp_path, lazy=True)
    yield provider, library
    assert library.failure is None, library.failure


def computed(x):
    return (x + 1).relu() * 2


def test_a_graph(late):
    provider, library = late
    x = rl.arange(6.0).to("cuda")
    computed(x)
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        assert rl.cuda.is_current_stream_capturing()
        y = computed(x)
    assert not rl.cuda.is_current_stream_capturing()
    library.clear()
    for value in (-2.0, 5.0):
        x.fill_(value)
        graph.replay()
        assert y.tolist() == [max(value + 1, 0) * 2] * 6
    assert len(library.notes("cuGraphLaunch")) == 2 and not any(row[5] for row in library.notes("cuLaunchKernel"))
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    assert library[GRAPHS] == library[PROGRAMS] == 0


def test_random_numbers_of_a_graph(late):
    """Each replay draws what an eager call would."""
    x = rl.ones(64).to("cuda")
    graph = rl.cuda.CUDAGraph()
    rl.rand(64, device="cuda")
    with rl.cuda.graph(graph):
        y = rl.rand(64, device="cuda") * x
        z = rl.rand(64, device="cuda")
    rl.manual_seed(4)
    wanted = [rl.rand(64, device="cuda").cpu().numpy() for _ in range(6)]
    rl.manual_seed(4)
    for k in range(3):
        graph.replay()
        np.testing.assert_array_equal(y.cpu().numpy(), wanted[2 * k])
        np.testing.assert_array_equal(z.cpu().numpy(), wanted[2 * k + 1])


def test_several_streams_in_a_graph(late):
    x = rl.arange(6.0).to("cuda")
    computed(x)
    graph, side = rl.cuda.CUDAGraph(), rl.cuda.Stream()
    with rl.cuda.graph(graph):
        y = x + 1
        side.wait_stream(rl.cuda.current_stream())
        with side:
            z = (y * 2 + 1) - 1
        rl.cuda.current_stream().wait_stream(side)
        w = z + y
    x.fill_(3.0)
    rl.cuda.synchronize()
    with side:  # blocks of this stream that the graph wrote to are not given to others
        held = [x + k for k in range(8)]
    graph.replay()
    rl.cuda.synchronize()
    assert w.tolist() == [12.0] * 6 and [h.tolist() for h in held] == [[3.0 + k] * 6 for k in range(8)]


def test_what_a_graph_refuses(late):
    x = rl.arange(6.0).to("cuda")
    graph = rl.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="non-default stream"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match="cuStreamSynchronize gave 900"):
        with rl.cuda.graph(graph):
            (x + 1).tolist()
    assert not rl.cuda.is_current_stream_capturing()
    assert (x + 1).tolist() == [1, 2, 3, 4, 5, 6]  # nothing else is lost
    side = rl.cuda.Stream()
    with pytest.raises(RuntimeError, match="cuStreamEndCapture gave 904"):
        with rl.cuda.graph(rl.cuda.CUDAGraph()):
            side.wait_stream(rl.cuda.current_stream())
            with side:
                x + 1
    with pytest.raises(RuntimeError, match="Unknown capture error mode"):
        with rl.cuda.graph(rl.cuda.CUDAGraph(), capture_error_mode="any"):
            pass


def test_what_is_freed_while_a_graph_is_recorded(late):
    """No driver may be asked meanwhile whether copies and other streams are done."""
    side, x = rl.cuda.Stream(), rl.arange(6.0).to("cuda")
    computed(x)
    used, host = rl.ones(6, device="cuda"), rl.ones(6).pin_memory()
    used.record_stream(side)
    x.copy_(host, non_blocking=True)
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        del used, host
        y = computed(x)
        rl.ones(4).pin_memory()
    graph.replay()
    assert y.tolist() == [4.0] * 6


def test_memory_of_graphs(late):
    """What a graph writes to stays its own while it lives, and goes back after."""
    provider, library = late
    x = rl.arange(6.0).to("cuda")
    computed(x)
    gc.collect()
    rl.cuda.empty_cache()
    blocks = library[BLOCKS]
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        y = computed(x)
    names = {tuple(one["segment_pool_id"]) for one in rl.cuda.memory_snapshot()}
    assert graph.pool() in names
    rl.cuda.empty_cache()
    held = [rl.full((6,), -1.0).to("cuda") for _ in range(20)]
    graph.replay()
    assert y.tolist() == [2.0 * (k + 1) for k in range(6)] and all(h.tolist() == [-1.0] * 6 for h in held)
    other = rl.cuda.CUDAGraph()
    with rl.cuda.graph(other, pool=graph.pool()):
        computed(x)
    assert other.pool() == graph.pool()
    del graph, other, y, held
    gc.collect()
    rl.cuda.empty_cache()
    assert library[BLOCKS] <= blocks


def steps(model, optimizer, inputs):
    found = []
    for x in inputs:
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def test_graphed_callables(late):
    provider, library = late
    rl.manual_seed(0)
    model, inputs = rl.nn.Linear(4, 3), [rl.randn(5, 4) for _ in range(3)]
    other = rl.nn.Linear(4, 3).to("cuda")
    other.load_state_dict(model.state_dict())
    run = rl.cuda.make_graphed_callables(other, (inputs[0].to("cuda"),))
    library.clear()
    found = steps(run, rl.optim.SGD(run.parameters(), lr=0.01), [x.to("cuda") for x in inputs])
    assert len(library.notes("cuGraphLaunch")) == 6
    np.testing.assert_allclose(found, steps(model, rl.optim.SGD(model.parameters(), lr=0.01), inputs), rtol=1e-5)


def test_reduced_overhead(late):
    """A compiled program becomes a graph, whose results stay right while somebody has them."""
    provider, library = late
    f = rl.compile(lambda a, b: ((a @ b).relu() + 1).softmax(1), mode="reduce-overhead")
    w, kept = rl.randn(4, 5), []
    there = w.to("cuda")
    library.clear()
    for k in range(8):
        x = rl.randn(3, 4)
        y = f(x.to("cuda"), there)
        kept = [*kept[-k:], (y, ((x @ w).relu() + 1).softmax(1))]  # all, at first
        for found, wanted in kept:
            np.testing.assert_allclose(found.cpu().numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
    assert 0 < len(library.notes("cuGraphLaunch")) < 8


def test_training_with_reduced_overhead(late):
    provider, library = late
    rl.manual_seed(0)
    model = rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.ReLU(), rl.nn.Linear(8, 3))
    inputs = [rl.randn(5, 4) for _ in range(6)]
    other = rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.ReLU(), rl.nn.Linear(8, 3)).to("cuda")
    other.load_state_dict(model.state_dict())
    library.clear()
    found = steps(rl.compile(other, mode="reduce-overhead"), rl.optim.SGD(other.parameters(), lr=0.01),
                  [x.to("cuda") for x in inputs])
    np.testing.assert_allclose(found, steps(model, rl.optim.SGD(model.parameters(), lr=0.01), inputs), rtol=1e-5)
    assert len(library.notes("cuGraphLaunch")) >= 6


@pytest.fixture
def programs(monkeypatch):
    """The RecordedPrograms that are made."""
    made, first = [], RecordedProgram.__init__

    def noted(self, *given):
        first(self, *given)
        made.append(self)

    monkeypatch.setattr(RecordedProgram, "__init__", noted)
    return made


def test_memory_of_recordings_is_their_own(late, programs):
    """One recording's temporaries are no later one's results."""
    f = rl.compile(lambda a: (a @ a).softmax(1) @ a, mode="reduce-overhead")
    kept = []
    for k in range(5):
        x = rl.randn(4, 4)
        kept.append((f(x.to("cuda")), (x @ x).softmax(1) @ x))
    for k in range(2):  # the first recording runs again, the others' results are there
        x = rl.randn(4, 4)
        kept[1] = f(x.to("cuda")), (x @ x).softmax(1) @ x
        for found, wanted in kept:
            np.testing.assert_allclose(found.cpu().numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
    one, = [p for p in programs if p.instances]
    assert len(one.instances) == 4
    for instance in one.instances:
        addresses = [*(s.address for s, _ in instance.results), *(s.address for s in instance.keep)]
        others = [s.address for i in one.instances if i is not instance for s in (*i.keep, *(s for s, _ in i.results))]
        assert len(addresses) > len(instance.copied) + 1 and not {*addresses} & {*others}


def test_numbers_that_vary_are_not_recorded(late, programs, monkeypatch):
    provider, library = late
    one = RecordedProgram(provider.board(0), None)
    monkeypatch.setattr(one, "record", lambda *given: pytest.fail("recorded"))
    monkeypatch.setattr(one, "tensors", lambda args, words: {})
    plan, kept = type("plan", (), {"place": None}), []
    for k in range(4):
        kept.append(np.array([3, k]))
        assert one.run(plan, (), kept[-1].ctypes.data, 2) is None


def test_a_recording_that_cannot_begin(late, monkeypatch):
    """The thread's stream is the one that it was, and what was asked for says why."""
    provider, library = late
    board = provider.board(0)

    def fails(self, mode):
        raise RuntimeError("no recording")

    monkeypatch.setattr(Recording, "begin", fails)
    f, x = rl.compile(computed, mode="reduce-overhead"), rl.arange(6.0).to("cuda")
    with pytest.raises(RuntimeError, match="no recording"):
        for _ in range(4):
            f(x)
    assert board.stream == 0 and board.recordings == 0


def test_random_programs_of_amd_are_not_recorded(late, monkeypatch):
    provider, library = late
    f = rl.compile(lambda x: x + rl.rand(6, device="cuda"), mode="reduce-overhead")
    x = rl.zeros(6, device="cuda")
    x + rl.rand(6, device="cuda")
    g = rl.compile(computed, mode="reduce-overhead")
    driver = provider.driver
    real = driver.vendor
    prepare = type(provider).prepare

    def prepared(self, index, plan):
        driver.vendor = real._replace(kind="hip")
        try:
            prepare(self, index, plan)
        finally:
            driver.vendor = real

    monkeypatch.setattr(type(provider), "prepare", prepared)
    library.clear()
    found = [f(x).tolist() for _ in range(4)]
    assert not library.notes("cuGraphLaunch") and len({tuple(row) for row in found}) == 4
    for _ in range(4):
        g(x)
    assert library.notes("cuGraphLaunch")


def test_other_streams_that_read_results_of_recordings(late):
    """A recording does not write to its results before a stream that they were noted for has read them."""
    provider, library = late
    f = rl.compile(computed, mode="reduce-overhead")
    side, host = rl.cuda.Stream(), rl.empty(6).pin_memory()
    x = rl.zeros(6, device="cuda")
    for k in range(3):
        y = f(x)
    rl.cuda.synchronize()
    address = y.data_ptr()
    library.state[LAZY] = 2
    with side:
        host.copy_(y, non_blocking=True)
    y.record_stream(side)
    del y
    x.fill_(5.0)
    y = f(x)
    assert y.data_ptr() == address and y.tolist() == [12.0] * 6
    side.synchronize()
    assert host.tolist() == [2.0] * 6


def test_constants_while_another_thread_records(late):
    provider, library = late
    board, ready, done = provider.board(0), threading.Event(), threading.Event()
    x = rl.arange(6.0).to("cuda")
    computed(x)

    def records():
        with rl.cuda.graph(rl.cuda.CUDAGraph(), capture_error_mode="thread_local"):
            computed(x)
            ready.set()
            done.wait(60)

    other = threading.Thread(target=records)
    other.start()
    assert ready.wait(60)
    try:
        assert board.table((1, 2, 3), "int64")
    finally:
        done.set()
        other.join()


def test_memory_of_the_host_while_a_graph_is_recorded(late):
    x = rl.arange(6.0).to("cuda")
    computed(x)
    with rl.cuda.graph(rl.cuda.CUDAGraph()):
        rl.empty(1 << 14).pin_memory()
        computed(x)
