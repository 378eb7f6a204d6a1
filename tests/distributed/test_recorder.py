"""The flight recorder and the tool that reads it."""
import datetime
import pickle
import threading

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight._src.core.settings import settings
from rushlight.distributed import recorder, threads
from rushlight.tools import flight

SHORT = datetime.timedelta(seconds=0.5)


def test_where_ranks_part_is_told(tmp_path):
    def member(rank):
        dist.all_reduce(torch.ones(3))
        dist.barrier()
        if rank == 1:
            dist.broadcast(torch.ones(2), 0)
        else:
            dist.all_reduce(torch.ones(2))
    with settings.set(flight_buffer=10, flight_file=str(tmp_path / "rushlight_trace_rank_")):
        with pytest.raises(RuntimeError, match="do not do the same"):
            threads.run(2, member)
    text = flight.report(flight.loaded(tmp_path, "rushlight_trace_rank_"), last=2)
    assert "collective 3: ranks differ in profiling name" in text and "test_recorder.py" in text
    assert "rank 1: gloo:broadcast of [[2]] ['float32']" in text


def test_who_has_not_come_is_told(tmp_path):
    over = threading.Event()

    def member(rank):
        dist.distributed_c10d._set_pg_timeout(SHORT)
        if rank == 0:
            try:
                dist.all_reduce(torch.ones(1))
            finally:
                over.set()
        else:
            over.wait(60)
            dist.barrier()
    with settings.set(flight_buffer=10, flight_file=str(tmp_path / "t")), pytest.raises(RuntimeError):
        threads.run(2, member)
    traces = flight.loaded(tmp_path, "t")
    assert "Timed out" in traces[0]["reason"] and traces[0]["entries"][-1]["state"] == "started"
    del traces[1]
    assert "rank 1 has not come" in flight.report(traces)


def test_the_ring_forgets_and_reads_plain_data():
    def member(rank):
        for _ in range(7):
            dist.all_reduce(torch.ones(2))
        return pickle.loads(recorder.dump())
    with settings.set(flight_buffer=4):
        found = threads.run(2, member)
    assert [e["collective_seq_id"] for e in found[0]["entries"]] == [4, 5, 6, 7] and all(e["state"] == "completed"
                                                                                         and e["duration_ms"] >= 0
                                                                                         for e in found[1]["entries"])
    assert found[0]["pg_config"]["0"]["ranks"] == "[0, 1]" and found[0]["version"] == "2.10"


def test_a_trace_runs_nothing(tmp_path):
    (tmp_path / "t0").write_bytes(pickle.dumps(print))
    with pytest.raises(pickle.UnpicklingError, match="plain data"):
        flight.loaded(tmp_path, "t")
