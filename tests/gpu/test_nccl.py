"""The backend "nccl" over a library that stands in: what arrives, and what the library and the driver are asked."""
import datetime
import gc
import re
import threading

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import _functional_collectives as functional, threads
from rushlight.distributed.nccl import library as libraries, watchdog

from . import stub
from .peers import connected
from .recorded import provided

BOTH = "cpu:gloo,cuda:nccl"


@pytest.fixture
def peers(as_before, monkeypatch, tmp_path):
    """Ranks with a GPU each; their exchanges are done, kernels are only noted."""
    library = provided(monkeypatch, tmp_path, computes=False, devices=4)[1]
    made = connected(monkeypatch, tmp_path, library)
    yield made
    made.end()
    libraries.library.cache_clear()
    assert made.failure is None, made.failure


def run(size, function, *args, backend="nccl", **given):
    """``function(rank, place)`` in each thread; ``place(tensor)`` is on that rank's GPU."""
    def member(rank):
        rl.cuda.set_device(rank)
        return function(rank, lambda tensor: tensor.to(f"cuda:{rank}"), *args)
    return threads.run(size, member, backend=backend, **given)


def on_host(size, function, *args):
    return threads.run(size, lambda rank: function(rank, lambda tensor: tensor, *args))


def values(rank, dtype, *shape):
    """Small integers, which all sums represent exactly."""
    count = rl.Size(shape).numel()
    x = (rl.arange(count) * (rank + 2) + rank) % 7
    return (x % 2 == 0 if dtype is rl.bool else x.to(dtype)).reshape(shape)


def read(*tensors):
    return [t.cpu().to(rl.float64).tolist() if t.is_floating_point() else t.cpu().tolist() for t in tensors]


# --- the same results as on the host ----------------------------------------------------------------------------------
def reduces(rank, place, dtype, op):
    x, y, z = (place(values(rank, dtype, 4)) for _ in range(3))
    dist.all_reduce(x, op)
    dist.reduce(y, 1, op)
    part = place(rl.zeros(2, dtype=dtype))
    dist.reduce_scatter_tensor(part, z, op)
    parts = place(rl.zeros(4, dtype=dtype))
    dist.reduce_scatter(parts, [place(values(rank + k, dtype, 4)) for k in range(2)], op)
    return read(x, y, part, parts)


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.float16, rl.bfloat16, rl.int32, rl.int64, rl.uint8,
                                   rl.int8, rl.bool])
def test_reductions(peers, dtype):
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MAX, dist.ReduceOp.MIN):
        assert run(2, reduces, dtype, op) == on_host(2, reduces, dtype, op), op
    if dtype.is_floating_point:
        assert run(2, reduces, dtype, dist.ReduceOp.AVG) == on_host(2, reduces, dtype, dist.ReduceOp.AVG)
        factor = dist._make_nccl_premul_sum(0.5)
        assert run(2, reduces, dtype, factor) == on_host(2, reduces, dtype, factor)
    assert peers.left() == 0


def moves(rank, place, dtype):
    size, x = 3, place(values(rank, dtype, 2, 3))
    found = []
    every = [place(rl.zeros(2, 3, dtype=dtype)) for _ in range(size)]
    dist.all_gather(every, x)
    whole = place(rl.zeros(6, 3, dtype=dtype))
    dist.all_gather_into_tensor(whole, x)
    some = [place(rl.zeros(2, 3, dtype=dtype)) for _ in range(size)] if rank == 1 else None
    dist.gather(x, some, dst=1)
    own = place(rl.zeros(2, 3, dtype=dtype))
    dist.scatter(own, [place(values(k, dtype, 2, 3)) for k in range(size)] if rank == 2 else None, src=2)
    given = place(values(rank, dtype, 4))
    dist.broadcast(given, 1)
    rows = place(rl.zeros(6, dtype=dtype))
    dist.all_to_all_single(rows, place(values(rank, dtype, 6)))
    counts, wanted = [1 + (rank + k) % 3 for k in range(size)], [1 + (rank + k) % 3 for k in range(size)]
    uneven = place(rl.zeros(sum(wanted), dtype=dtype))
    dist.all_to_all_single(uneven, place(values(rank, dtype, sum(counts))), wanted, counts)
    lists = [place(rl.zeros(k + rank, dtype=dtype)) for k in range(size)]
    dist.all_to_all(lists, [place(values(rank, dtype, k + rank)) for k in range(size)])
    if rank == 0:
        dist.send(x, 2)
    elif rank == 2:
        dist.recv(found_at := place(rl.zeros(2, 3, dtype=dtype)), 0)
        found.append(found_at)
    ring = place(rl.zeros(2, 3, dtype=dtype))
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, (rank + 1) % size),
                                        dist.P2POp(dist.irecv, ring, (rank - 1) % size)]):
        work.wait()
    return read(*every, whole, *some or (), own, given, rows, uneven, *lists, *found, ring)


@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16, rl.int16, rl.bool, rl.complex64, rl.float8_e5m2])
def test_copies(peers, dtype):
    if dtype is rl.float8_e5m2:  # compared as bytes
        found = run(3, lambda rank, place: moves_of_bytes(rank, place))
        assert found == on_host(3, moves_of_bytes)
        return
    assert run(3, moves, dtype) == on_host(3, moves, dtype)


def moves_of_bytes(rank, place):
    x = place(values(rank, rl.uint8, 4)).view(rl.float8_e5m2)
    dist.broadcast(x, 1)
    return read(x.view(rl.uint8))


def objects(rank, place):
    size, every, some = dist.get_world_size(), [None] * dist.get_world_size(), [None] * dist.get_world_size()
    dist.all_gather_object(every, {"rank": rank, "long": "x" * rank * 50})
    dist.gather_object(rank, some if rank == 1 else None, dst=1)
    told, own = [rank, str(rank)], [None]
    dist.broadcast_object_list(told, 1)
    dist.scatter_object_list(own, [f"for {k}" for k in range(size)] if rank == 0 else None, src=0)
    if rank == 0:
        dist.send_object_list([1, "two"], 1)
    elif rank == 1:
        got = [None, None]
        dist.recv_object_list(got, 0)
        told += got
    dist.barrier()
    return every, some, told, own


@pytest.mark.parametrize("backend", ["nccl", BOTH])
def test_objects(peers, backend):
    assert run(2, objects, backend=backend) == on_host(2, objects)


def test_several_at_once(peers):
    def member(rank, place):
        x, y = place(values(rank, rl.float32, 3)), place(values(rank, rl.int64, 2))
        with dist._coalescing_manager(async_ops=True) as together:
            dist.all_reduce(x)
            dist.all_reduce(y)
        together.wait()
        a, b = place(values(rank, rl.float32, 3)), place(values(rank, rl.float32, 2))
        dist.all_reduce_coalesced([a, b])
        lists = [[place(rl.zeros(3)), place(rl.zeros(2))] for _ in range(2)]
        dist.all_gather_coalesced(lists, [a, b])
        return read(x, y, a, b, *lists[0], *lists[1])

    assert run(2, member) == on_host(2, member)
    starts = [note[0] for note in peers.notes]
    assert starts.count("ncclGroupStart") == starts.count("ncclGroupEnd") > 0


def test_complex_numbers_are_pairs(peers):
    def member(rank, place):
        x = place(rl.tensor([1 + 2j, 3 - 1j]) * (rank + 1))
        dist.all_reduce(x)
        return x.cpu().tolist()

    assert run(2, member) == on_host(2, member) == [[3 + 6j, 9 - 3j]] * 2
    assert {note[3:5] for note in peers.asked("ncclAllReduce")} == {(4, 7)}


def test_what_is_refused(peers):
    def member(rank, place):
        x, y = place(rl.ones(2)), place(rl.ones(2, dtype=rl.int16))
        for error, words, call in (
            (ValueError, "Cannot use ReduceOp.BAND with NCCL", lambda: dist.all_reduce(x, dist.ReduceOp.BAND)),
            (TypeError, "not supported for NCCL", lambda: dist.all_reduce(y)),
            (TypeError, "AVG", lambda: dist.all_reduce(place(rl.ones(2) > 0), dist.ReduceOp.AVG)),
            (ValueError, "complex", lambda: dist.all_reduce(place(rl.ones(2) * 1j), dist.ReduceOp.PRODUCT)),
            (ValueError, "PreMulSum", lambda: dist.all_reduce(place(rl.ones(2).int()), dist._make_nccl_premul_sum(2))),
            (RuntimeError, "No backend type associated with device type cpu", lambda: dist.all_reduce(rl.ones(2))),
            (RuntimeError, "recvAnysource", lambda: dist.recv(x)),
            (RuntimeError, "on one device", lambda: dist.all_gather([rl.ones(2)], x)),
            (RuntimeError, "on one device", lambda: dist.all_reduce_coalesced([x, rl.ones(2)])),
            (ValueError, "only implemented for GLOO", lambda: dist.monitored_barrier()),
        ):
            with pytest.raises(error, match=re.escape(words)):
                call()
        return dist.get_backend(), dist.get_backend_config()

    assert run(1, member) == [("nccl", "cuda:nccl")]


def test_functional_collectives_are_refused_alike(peers):
    def member(rank, place):
        group, truth = dist.group.WORLD, place(rl.ones(2) > 0)
        for error, words, given, reduce in ((TypeError, "AVG", truth, "avg"),
                                            (ValueError, "BAND", truth, "band"),
                                            (RuntimeError, "premul_sum", place(rl.ones(2)), "premul_sum"),
                                            (RuntimeError, "product does not support complex", truth * 1j, "product")):
            for call in (lambda: functional.all_reduce(given, reduce, group),
                         lambda: functional.reduce_scatter_tensor(given, reduce, 0, group)):
                with pytest.raises(error, match=words):
                    call()

    run(1, member)


def test_which_backend_follows_from_the_device(peers):
    def member(rank, place):
        x, y = rl.full((2,), rank + 1.0), place(rl.full((2,), rank + 2.0))
        dist.all_reduce(x)
        asked = len(peers.notes)
        dist.all_reduce(y)
        return x.tolist(), y.tolist(), len(peers.notes) > asked, dist.get_backend_config(), dist.get_backend()

    assert run(2, member, backend=BOTH) == [([3, 3], [5, 5], True, BOTH, "gloo")] * 2

    def by_host(rank, place):
        x = place(rl.full((2,), rank + 1.0))
        dist.all_reduce(x)
        return x.tolist()

    before = len(peers.asked("ncclAllReduce"))
    assert run(2, by_host, backend="gloo") == [[3, 3]] * 2
    assert len(peers.asked("ncclAllReduce")) == before


# --- groups -----------------------------------------------------------------------------------------------------------
def test_groups_of_their_own(peers):
    def member(rank, place):
        pairs = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
        x = place(rl.full((1,), float(rank)))
        dist.all_reduce(x, group=pairs[rank // 2])
        return x.item()

    assert run(4, member) == [1, 1, 5, 5]
    assert not peers.asked("ncclCommSplit") and peers.left() == 0


def test_groups_split_from_the_world(peers):
    """Where every rank has said which GPU is its own, groups come from the world's communicator."""
    def member(rank):
        rl.cuda.set_device(rank)
        dist.init_process_group("nccl", store=store, rank=rank, world_size=4, device_id=rl.device(f"cuda:{rank}"))
        connected = len(peers.asked("ncclCommInitRank"))
        odd, some = dist.new_group([1, 3]), dist.split_group(split_ranks=[[0, 2], [1, 3]])
        x, y = (rl.full((1,), float(rank)).to(f"cuda:{rank}") for _ in range(2))
        if rank % 2:
            dist.all_reduce(x, group=odd)
        dist.all_reduce(y, group=some)
        found = x.item(), y.item()
        dist.destroy_process_group()
        return connected > 0, found

    store = dist.HashStore()
    found = threads.run(4, lambda rank: (dist.destroy_process_group(), member(rank))[1])
    assert found == [(True, (0, 2)), (True, (4, 4)), (True, (2, 2)), (True, (4, 4))]
    assert len(peers.asked("ncclCommInitRank")) == 4 and len(peers.asked("ncclCommSplit")) == 8
    assert {note[2] for note in peers.asked("ncclCommSplit")} == {-1, 0, 1} and peers.left() == 0


def test_options_reach_the_library(peers):
    def member(rank):
        rl.cuda.set_device(rank)
        options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
        options.config.max_ctas, options.config.cga_cluster_size = 8, 2
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, pg_options=options)
        group = dist.group.WORLD
        group.engine_at(rl.device("cuda:0")).connect()
        config = group.engine_at(rl.device("cuda:0")).config()
        dist.destroy_process_group()
        return config.size, config.magic, config.max_ctas, config.cga_cluster_size, config.min_ctas

    assert threads.run(1, lambda rank: (dist.destroy_process_group(), member(rank))[1]) == [
        (48, 0xCAFEBEEF, 8, 2, -(1 << 31))]


# --- streams and memory -----------------------------------------------------------------------------------------------
def test_streams_wait_for_one_another(peers):
    """The communicator's stream begins after the caller's, and the caller's goes on after it."""
    def member(rank, place):
        x = place(rl.ones(4))
        dist.all_reduce(x)  # makes the communicator
        peers.driver.clear()
        side = rl.cuda.Stream()
        with rl.cuda.stream(side):
            work = dist.all_reduce(x, async_op=True)
        before = peers.driver.notes("cuEventRecord", "cuStreamWaitEvent", "cuLaunchHostFunc")
        work.wait()
        after = peers.driver.notes("cuStreamWaitEvent")[-1]
        return side.stream_id, [row[:3] for row in before], after[:3]

    side, before, after = run(1, member)[0]
    (_, first, ready), (_, waits, event), (_, does, _), (_, marked, done) = before
    assert first == side and event == ready and waits == does == marked != side
    assert after == ("cuStreamWaitEvent", 0, done)


def test_memory_is_kept_until_the_exchange_is_done(peers):
    def member(rank, place):
        peers.driver.state[stub.LAZY] = 2  # nothing is done by itself
        x = place(rl.ones(1 << 12))
        at = x.data_ptr()
        work = dist.all_reduce(x, async_op=True)
        del x
        work._result = None
        other = rl.empty(1 << 12, device=f"cuda:{rank}").data_ptr()
        held = work.flight.kept is not None
        work.wait()  # what is freed from here on is used again after the exchange
        dropped = work.flight.kept is None
        peers.driver.state[stub.LAZY] = 0
        rl.cuda.synchronize()
        return held, dropped, other != at

    assert run(1, member) == [(True, True, True)]


def test_memory_of_what_nobody_waits_for(peers):
    def member(rank, place):
        x = place(rl.ones(1 << 12))
        work = dist.all_reduce(x, async_op=True)
        engine = dist.group.WORLD.engine_at(rl.device("cuda:0"))
        del x, work
        engine.settle()
        gc.collect()
        return len(engine.flying), engine.finished == engine.issued

    assert run(1, member) == [(0, True)]


def test_tensors_that_are_not_dense(peers, monkeypatch):
    """Copies from and to dense memory surround the exchange, the one back on its stream."""
    def member(rank, place):
        x = place(rl.ones(2, 3)).t()
        peers.driver.clear()
        dist.all_reduce(x)
        launches = peers.driver.notes("cuLaunchKernel")
        return [row[1] for row in launches], peers.driver.notes("cuLaunchHostFunc")[0][1]

    (before, after), does = run(1, member)[0]
    assert before == 0 and after == does


# --- what goes wrong --------------------------------------------------------------------------------------------------
@pytest.fixture
def quick(monkeypatch):
    # ranks are asked only where they answer, however late: no test waits for the grace to end
    for name, value in {"PERIOD": 0.005, "IDLE": 0.02, "GRACE": 60.0}.items():
        monkeypatch.setattr(watchdog, name, value)


def test_an_error_of_the_library(peers):
    def member(rank, place):
        with peers.failing("ncclAllReduce", 2), pytest.raises(dist.DistBackendError, match="ncclAllReduce.*status 2"):
            dist.all_reduce(place(rl.ones(2)))

    run(1, member)


def test_communicators_that_do_not_block(peers):
    """What the library has only begun is waited for."""
    def member(rank, place):
        x = place(rl.ones(2))
        dist.all_reduce(x)
        engine = dist.group.WORLD.engine_at(rl.device("cuda:0"))
        asked = []
        engine.settled = lambda: asked.append("settled")
        with peers.failing("ncclAllReduce", 7):
            dist.all_reduce(x)
        return asked

    assert run(1, member) == [["settled"]]


def test_an_error_between_ranks(peers, quick):
    def member(rank, place):
        x = place(rl.ones(2))
        dist.all_reduce(x)
        dist.group.WORLD.meet()
        if rank == 1:
            peers.break_rank(1)
        engine = dist.group.WORLD.engine_at(rl.device(f"cuda:{rank}"))
        engine.watchdog.thread.join(60)
        with pytest.raises(dist.DistBackendError, match="rank 1 of the group: NCCL error.*status 6"):
            dist.all_reduce(x)

    run(2, member)
    assert len(peers.asked("ncclCommAbort")) == 2 and peers.left() == 0


def test_a_rank_that_does_not_come(peers, quick):
    """The others end in time, say who it was, and no result is taken for one."""
    seconds, together = datetime.timedelta(seconds=0.3), threading.Barrier(2)

    def member(rank, place):
        x = place(rl.ones(2))
        dist.all_reduce(x)
        dist.barrier()
        together.wait()
        peers.driver.state[stub.LAZY] = 2
        engine = dist.group.WORLD.engine_at(rl.device(f"cuda:{rank}"))
        if rank == 1:
            engine.watchdog.thread.join(60)  # it is elsewhere, and its watchdog says so
            return str(engine.broken)
        dist.group.WORLD.set_timeout(seconds)
        dist.all_reduce(x)
        with pytest.raises(dist.DistBackendError, match=r"did not come to it \(come to 2\)"):
            x.cpu()
        with pytest.raises(dist.DistBackendError, match="rank 1 of the group did not come"):
            dist.all_reduce(x)
        return str(engine.broken)

    first, second = run(2, member)
    assert first == second and "collective 3 (all_reduce of [2] float32)" in first
    assert len(peers.asked("ncclCommAbort")) == 2


def test_a_communicator_that_does_not_end(peers, quick, caplog):
    """What is under way has failed, also where the library answers its abortion with an error."""
    together = threading.Barrier(2)

    def member(rank, place):
        x = place(rl.ones(2))
        dist.all_reduce(x)
        dist.barrier()
        together.wait()
        peers.driver.state[stub.LAZY] = 2
        engine = dist.group.WORLD.engine_at(rl.device(f"cuda:{rank}"))
        if rank == 0:
            dist.group.WORLD.set_timeout(datetime.timedelta(seconds=0.3))
            work = dist.all_reduce(x, async_op=True)
        engine.watchdog.thread.join(60)
        if rank == 0:
            with pytest.raises(dist.DistBackendError, match="rank 1 of the group did not come"):
                work.wait()
            assert work.exception() is engine.broken and not engine.watchdog.thread.is_alive()

    with peers.failing("ncclCommAbort", 1):
        run(2, member)
    assert "could not end its communicator" in caplog.text and "ncclCommAbort" in caplog.text


class Stubborn:
    """A pair, and a flight, that fail to fail."""

    awaited, kept = True, ()

    def failed(self, error):
        raise KeyError("stubborn")

    def passed(self):
        return False


@pytest.mark.parametrize("place_of", ["pairs", "flying", "look"])
def test_a_watchdog_outlives_every_error(peers, quick, caplog, place_of):
    """All ranks end their communicators, whatever goes wrong with one thing on the way."""
    together = threading.Barrier(2)

    def member(rank, place):
        x = place(rl.ones(2))
        dist.all_reduce(x)
        dist.group.WORLD.meet()
        together.wait()  # nobody is on the way any more when one breaks
        engine = dist.group.WORLD.engine_at(rl.device(f"cuda:{rank}"))
        if place_of == "pairs":
            engine.pairs[0, 1, 0] = Stubborn()
        elif place_of == "flying":
            engine.flying.append(Stubborn())
            engine.flying[-1].begun = 1e18
        if rank == 1:
            if place_of == "look":
                engine.watchdog.library_error = Stubborn().failed  # called without what it takes: TypeError
            else:
                peers.break_rank(1)
        engine.watchdog.thread.join(60)
        assert engine.broken is not None and engine.comm is None
        engine.pairs.clear()

    run(2, member)
    assert len(peers.asked("ncclCommAbort")) == 2
    assert place_of == "look" or "could not end its communicator: KeyError: 'stubborn'" in caplog.text


def test_a_rank_that_never_joins(peers, quick):
    def member(rank):
        rl.cuda.set_device(rank)
        store = dist.HashStore()
        store.set_timeout(datetime.timedelta(seconds=0.2))
        dist.init_process_group("nccl", store=store, rank=0, world_size=2, timeout=datetime.timedelta(seconds=0.2))
        with pytest.raises(dist.DistBackendError, match="rank 1 of the group did not come to make it"):
            dist.all_reduce(rl.ones(2).to("cuda:0"))
        dist.destroy_process_group()

    threads.run(1, lambda rank: (dist.destroy_process_group(), member(rank)))


def test_waiting_with_a_limit(peers):
    def member(rank, place):
        x = place(rl.ones(2))
        peers.driver.state[stub.LAZY] = 2
        work = dist.all_reduce(x, async_op=True)
        assert not work.is_completed()
        with pytest.raises(dist.DistBackendError, match="Timed out waiting 20ms"):
            work.wait(datetime.timedelta(milliseconds=20))
        peers.driver.state[stub.LAZY] = 0
        rl.cuda.synchronize()
        return work.is_completed() and work.is_success()

    assert run(1, member) == [True]


def test_the_flight_recorder(peers, monkeypatch):
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "10")

    def member(rank, place):
        x = place(rl.ones(3))
        dist.all_reduce(x)
        dist.broadcast(x, 0)
        engine = dist.group.WORLD.engine_at(rl.device(f"cuda:{rank}"))
        engine.settle()
        from rushlight.distributed.worlds import here
        return [(e["profiling_name"], e["state"], e["input_sizes"], e["frames"][0]["name"] != "exchange")
                for e in here().ring.entries]

    assert run(2, member)[0] == [("nccl:all_reduce", "completed", [[3]], True),
                                 ("nccl:broadcast", "completed", [[3]], True)]


# --- graphs -----------------------------------------------------------------------------------------------------------
def test_exchanges_in_a_graph(peers):
    def member(rank, place):
        x = place(rl.full((2,), rank + 1.0))
        dist.all_reduce(x)
        dist.barrier()
        graph, stream = rl.cuda.CUDAGraph(), rl.cuda.Stream()
        with rl.cuda.stream(stream):
            graph.capture_begin()
            dist.all_reduce(x)
            graph.capture_end()
            before = x.tolist()
            graph.replay()
            graph.replay()
        rl.cuda.synchronize()
        return before, x.tolist()

    assert run(1, member) == [([1, 1], [1, 1])]
    asked = len(peers.asked("ncclAllReduce"))
    assert asked == 3  # two, and a barrier: what a graph does again is not asked again


def test_no_communicator_is_made_in_a_graph(peers):
    def member(rank, place):
        x = place(rl.ones(2))
        with rl.cuda.stream(rl.cuda.Stream()):
            graph = rl.cuda.CUDAGraph()
            graph.capture_begin()
            with pytest.raises(RuntimeError, match="while a CUDA graph is recorded"):
                dist.all_reduce(x)
            graph.capture_end()

    run(1, member)


# --- the library ------------------------------------------------------------------------------------------------------
def test_where_the_library_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("NCCL_LIB_DIR", str(tmp_path))
    monkeypatch.setattr(libraries, "WHEELS", ("email",))
    places = list(libraries.places("cuda"))
    assert places[0] == str(tmp_path / "libnccl.so.2") and places[-1] == "libnccl.so.2"
    assert any("email" in place and place.endswith("lib/libnccl.so.2") for place in places)


def test_without_the_library(monkeypatch):
    monkeypatch.setattr(libraries, "library", lambda kind="cuda": None)
    with pytest.raises(RuntimeError, match=r"have NCCL built in.*pip install rushlight\[nccl\]"):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    assert not dist.is_nccl_available() and not dist.is_initialized()


def test_without_a_gpu(monkeypatch):
    monkeypatch.setattr(libraries, "library", lambda kind="cuda": object())
    if rl.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(ValueError, match="no GPUs found"):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    assert dist.is_nccl_available()
