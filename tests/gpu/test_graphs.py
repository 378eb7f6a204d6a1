"""Graphs of launches: what is recorded, what replays read and write, random numbers, pools, and compiled programs."""
import gc

import numpy as np
import pytest

import rushlight as rl

from .recorded import provided
from .stub import BLOCKS, GRAPHS, PROGRAMS


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
