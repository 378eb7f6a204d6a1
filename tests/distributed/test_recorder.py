"""The flight recorder and the tool that reads it."""
import datetime
import pickle
import threading
import time

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight._src.core.settings import settings
from rushlight.distributed import recorder, threads
from rushlight.tools import blame, flight

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


@pytest.mark.parametrize("setting, value, older", [
    ("flight_buffer", 7, "TORCH_NCCL_TRACE_BUFFER_SIZE"),
    ("flight_file", "somewhere", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")])
def test_older_names_of_the_settings(monkeypatch, setting, value, older):
    newer = getattr(type(settings), setting).variable
    monkeypatch.delenv(newer, raising=False)
    monkeypatch.setenv(older, str(value))
    assert getattr(settings, setting) == value
    monkeypatch.setenv(newer, "3")
    assert str(getattr(settings, setting)) == "3"
    if setting == "flight_buffer":
        monkeypatch.delenv(newer)
        monkeypatch.setenv(older, "many")
        with pytest.raises(ValueError, match=f"{older} is 'many': it must be a number from 0"):
            settings.flight_buffer


def test_a_trace_runs_nothing(tmp_path):
    (tmp_path / "t0").write_bytes(pickle.dumps(print))
    with pytest.raises(pickle.UnpicklingError, match="plain data"):
        flight.loaded(tmp_path, "t")


# --- what a trace tells of ranks that came late -----------------------------------------------------------------------
def a_trace(entries, groups, **more):
    """A rank's trace: ``entries`` are (group, number in it, time, dtype, state), each at the line of its group."""
    found = [{"record_id": k, "ordinal": k + 1, "process_group": (group, ""), "collective_seq_id": number,
              "is_p2p": False,
              "profiling_name": "gloo:all_reduce", "input_sizes": [[6]], "input_dtypes": [dtype], "state": state,
              "time_created_ns": at, "frames": [{"filename": "train.py", "line": 5 + len(group), "name": "train"}]}
             for k, (group, number, at, dtype, state) in enumerate(entries)]
    return {"entries": found, "raised": [], "reason": "", "main_thread": [],
            "pg_config": {name: {"ranks": str(ranks)} for name, ranks in groups.items()}, **more}


def steps(dtype, *more):
    return [("data", 1, 10, "float32", "completed"), ("world", 1, 20, "float32", "completed"),
            ("data", 2, 30, dtype, "started"), *more]


WORLD = [0, 1, 2, 3]


@pytest.mark.parametrize("others", ["have not come", "came late", "have come"])
def test_a_pair_that_differs_is_told_apart(others):
    culprit = {1: "float32", 3: "float64"}
    traces = {rank: a_trace(steps(dtype), {"data": [1, 3], "world": WORLD}) for rank, dtype in culprit.items()}
    for rank in (0, 2):
        groups = {"data 0": [0, 2], "world": WORLD}
        entries = [(name.replace("data", "data 0"), *rest) for name, *rest in steps("float32")]
        entries = entries[:2] if others == "have not come" else entries
        traces[rank] = a_trace(entries, groups, **({"asked_ns": 25} if others == "came late" else {}))
    found = blame.blame(traces)
    assert found.ranks == [3] and "another dtype" in found.why


def test_who_came_only_after_the_failure_is_to_blame():
    groups = {"data": WORLD[:2], "world": WORLD[:2]}
    traces = {0: a_trace(steps("float32"), groups),
              1: a_trace([(name, number, at + 30 * (number > 1), dtype, state) for name, number, at, dtype, state
                          in steps("float32")], groups, asked_ns=40)}
    assert blame.blame(traces).ranks == [1]


def test_a_rank_that_was_asked_leaves_its_ring_again(tmp_path):
    def member(rank):
        dist.all_reduce(torch.ones(1))
        world = recorder.here()
        recorder.write_asked(world, "asked for")
        before = time.time_ns()
        dist.barrier()
        recorder.write(world, "ended", [{"filename": "x", "line": 1, "name": "f"}])
        recorder.write(world, "once more")
        return before
    with settings.set(flight_buffer=10, flight_file=str(tmp_path / "t")):
        before = threads.run(2, member)
    for rank, trace in flight.loaded(tmp_path, "t").items():
        assert trace["reason"] == "ended" and trace["raised"] == []
        assert [e["time_created_ns"] > trace["asked_ns"] for e in trace["entries"]] == [False, True]
        assert trace["asked_ns"] <= before[rank]
