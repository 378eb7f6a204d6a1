"""``torch.monitor``, beside PyTorch."""
import datetime
import importlib
import itertools
import time

import pytest
import torch as judge

import rushlight as torch

from ..waiting import wait_for

BOTH = pytest.mark.parametrize("monitor", [importlib.import_module(f"{t.__name__}.monitor") for t in (judge, torch)],
                               ids=["torch", "rushlight"])
LONG = datetime.timedelta(hours=10)


@pytest.fixture
def events(monitor):
    seen = []
    handle = monitor.register_event_handler(lambda event: seen.append((event.name, event.data)))
    yield seen
    monitor.unregister_event_handler(handle)


def named(values):
    return sorted((kind.name, value) for kind, value in values.items())


@BOTH
def test_a_full_window_is_told(monitor, events):
    kinds = [monitor.SUM, monitor.MEAN, monitor.COUNT, monitor.MAX, monitor.MIN, monitor.VALUE]
    stat = monitor.Stat("a", kinds, LONG, 2)
    stat.add(-3.5)
    assert stat.count == 1 and stat.name == "a" and not any(stat.get().values()) and not events
    for value in (-2, 100, 200):  # those that come later in the window are dropped
        stat.add(value)
    assert events == [("torch.monitor.Stat", {"a.sum": -5.5, "a.mean": -2.75, "a.count": 2.0, "a.max": -2.0,
                                              "a.min": -3.5})]
    assert stat.count == 0 and named(stat.get()) == [("COUNT", 2.0), ("MAX", -2.0), ("MEAN", -2.75), ("MIN", -3.5),
                                                     ("SUM", -5.5)]
    del stat
    assert len(events) == 1


@BOTH
def test_what_is_left_is_told_at_the_end(monitor, events):
    stat = monitor.Stat("b", [monitor.Aggregation.MIN], LONG)
    stat.add(2), stat.add(5)
    del stat
    assert events == [("torch.monitor.Stat", {"b.min": 2.0})]


def windows(monitor, name, values):
    """A Stat to which each value was added within one window of a millisecond, a window for each; None where a window
    ended during a call of ``add``, which then reports the value at once in PyTorch."""
    stat = monitor.Stat(name, [monitor.MEAN], datetime.timedelta(milliseconds=1))
    for value in values:
        before = time.monotonic_ns() // 1_000_000  # the clock of PyTorch's windows
        stat.add(value)
        if time.monotonic_ns() // 1_000_000 != before:
            return None
        time.sleep(0.002)
    return stat


@BOTH
def test_windows_end_with_the_next_value(monitor, events):
    names = map("c{}".format, itertools.count())
    stat = wait_for(lambda: windows(monitor, next(names), (1.0, 7.0, 9.0)))
    seen = [data for _, data in events if f"{stat.name}.mean" in data]
    assert seen == [{f"{stat.name}.mean": 1.0}, {f"{stat.name}.mean": 7.0}]
    assert stat.count == 1 and named(stat.get()) == [("MEAN", 7.0)]


@BOTH
def test_events(monitor, events):
    event = monitor.Event("x", datetime.datetime(2020, 1, 1), {"a": "s", "b": 2, "c": 1.5, "d": True})
    monitor.log_event(event)
    event.name, event.data = "y", {"q": 1}
    event.data["z"] = 2  # a copy
    monitor.log_event(event)
    assert events == [("x", {"a": "s", "b": 2, "c": 1.5, "d": 1.0}), ("y", {"q": 1})]
    assert event.timestamp == datetime.datetime(2020, 1, 1)
    handle = monitor.register_event_handler(lambda event: 1 / 0)
    try:
        with pytest.raises(ZeroDivisionError):
            monitor.log_event(event)
    finally:
        monitor.unregister_event_handler(handle)
    with monitor._WaitCounter("k").guard():
        pass


@BOTH
def test_writers_get_figures(monitor):
    written = []
    writer = type("Writer", (), {"add_scalar": lambda self, *args, **named: written.append((args, named))})()
    handler = monitor.TensorboardEventHandler(writer)
    when = datetime.datetime(2020, 1, 1)
    for name in ("other", monitor.STAT_EVENT):
        handler(monitor.Event(name, when, {"b": 2}))
    assert written == [(("b", 2), {"walltime": when.timestamp()})]


@BOTH
@pytest.mark.parametrize("wrong", [
    lambda m: m.Stat("a", [m.SUM], 10), lambda m: m.Stat(1, [m.SUM], LONG), lambda m: m.log_event(3),
    lambda m: m.register_event_handler(3), lambda m: m.unregister_event_handler(3), lambda m: m.EventHandlerHandle(),
    lambda m: m.Event("a", 1, {}), lambda m: m.Event("a", datetime.datetime.now(), {"a": []}),
    lambda m: m.data_value_t(), lambda m: m.Stat("a", [m.SUM], LONG).add("3")], ids=range(10))
def test_what_is_refused(monitor, wrong):
    with pytest.raises(TypeError):
        wrong(monitor)


def test_what_ends_the_process_in_torch_is_refused():
    with pytest.raises(ValueError, match="millisecond"):
        torch.monitor.Stat("a", [], datetime.timedelta(0))
    handle = torch.monitor.register_event_handler(print)
    torch.monitor.unregister_event_handler(handle)
    with pytest.raises(ValueError, match="not registered"):
        torch.monitor.unregister_event_handler(handle)
