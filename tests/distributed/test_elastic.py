"""Launchers as programs import them: rendezvous of hosts, restarts when some join or leave, and failures."""
import datetime
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch as theirs
import torch.distributed.elastic.events as their_events
import torch.distributed.elastic.multiprocessing.api as their_api
import torch.distributed.elastic.rendezvous.api as their_rendezvous
import torch.distributed.elastic.rendezvous.utils as their_utils

from rushlight import distributed as dist
from rushlight.distributed.elastic import events, metrics
from rushlight.distributed.elastic import rendezvous as rdzv
from rushlight.distributed.elastic.agent.server.api import WorkerState
from rushlight.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std, api, start_processes
from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError
from rushlight.distributed.elastic.rendezvous import dynamic_rendezvous, utils
from rushlight.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from rushlight.distributed.launcher.api import LaunchConfig, elastic_launch
from rushlight.numa.binding import AffinityMode, NumaOptions, refuse_binding

from ..waiting import wait_for
from .groups import reserved_port

LIMIT = 900
PROGRAM = Path(__file__).with_name("elastic_program.py")


def answer(function, *args):
    """What a function gives, or the type of what it raises."""
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("text", ["", None, "a", "a.b:1", "[::1]:80", "[::1]", "10.0.0.1:65535", "a:b", "a:", ":1",
                                  "a:65536", "x y", "a:-1"])
def test_endpoints_read_as_in_pytorch(text):
    assert answer(utils.parse_rendezvous_endpoint, text, 7) == answer(their_utils.parse_rendezvous_endpoint, text, 7)


@pytest.mark.parametrize("text", ["", "a=1", "a=1,b=2", " a = 1 , b=2", "a", "=1", "a=", "a=1,b"])
def test_settings_read_as_in_pytorch(text):
    assert answer(utils.parse_rendezvous_config, text) == answer(their_utils._parse_rendezvous_config, text)


@pytest.mark.parametrize("text", ["0", "1", "2", "3", "4", "0:1", "0:1,1:3", "0:4", "a", "1,2", "0:1,2"])
def test_streams_read_as_in_pytorch(text):
    assert answer(Std.from_str, text) == answer(their_api.Std.from_str, text)


@pytest.mark.parametrize("value", [True, False, "1", "t", "TRUE", "no", "0", "2", 1, 0, 3, 1.0, None, "x"])
@pytest.mark.parametrize("how", ["get_as_bool", "get_as_int"])
def test_parameters_answer_as_in_pytorch(how, value):
    found = [answer(getattr(kind("c10d", "a", "id", 1, 2, None, key=value), how), "key")
             for kind in (rdzv.RendezvousParameters, their_rendezvous.RendezvousParameters)]
    assert found[0] == found[1]


def test_events_are_written_as_in_pytorch():
    texts = [kind.Event("name", kind.EventSource.AGENT, 5, {"a": 1}).serialize() for kind in (events, their_events)]
    assert texts[0] == texts[1]
    assert events.Event.deserialize(texts[1]) == events.Event("name", events.EventSource.AGENT, 5, {"a": 1})


def test_registry():
    registry = rdzv.RendezvousHandlerRegistry()
    with pytest.raises(ValueError):
        registry.create_handler(rdzv.RendezvousParameters("x", "", "id", 1, 1))
    registry.register("x", lambda parameters: handler(dist.HashStore(), 1, 1))
    with pytest.raises(ValueError):
        registry.register("x", print)
    with pytest.raises(RuntimeError, match="c10d"):
        registry.create_handler(rdzv.RendezvousParameters("x", "", "id", 1, 1))
    with pytest.raises(NotImplementedError, match="etcd"):
        rdzv.get_rendezvous_handler(rdzv.RendezvousParameters("etcd", "a:1", "id", 1, 1))


# --- rendezvous -------------------------------------------------------------------------------------------------------
def handler(store, least, most, last_call=600.0, join=LIMIT):
    seconds = datetime.timedelta
    times = dynamic_rendezvous.RendezvousTimeout(seconds(seconds=join), seconds(seconds=last_call))
    return dynamic_rendezvous.DynamicRendezvousHandler.from_backend(
        "run", store, C10dRendezvousBackend(store, "run"), least, most, "here", times)


def met(handlers):
    """(rank, size) of each handler, which meet."""
    found = [None] * len(handlers)

    def meet(k):
        time.sleep(random.Random(k).random() / 20)
        info = handlers[k].next_rendezvous()
        info.store.set(f"{info.rank}", "here")
        info.store.wait([str(rank) for rank in range(info.world_size)])
        found[k] = info.rank, info.world_size
    threads = [threading.Thread(target=meet, args=(k,)) for k in range(len(handlers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    return found


@pytest.mark.parametrize("count", [1, 2, 5])
def test_machines_have_ranks_round_after_round(count):
    store = dist.HashStore()
    handlers = [handler(store, count, count) for _ in range(count)]
    for _ in range(3):
        assert sorted(met(handlers)) == [(rank, count) for rank in range(count)]
    handlers[0].set_closed()
    with pytest.raises(rdzv.RendezvousClosedError):
        handlers[-1].next_rendezvous()
    assert all(each.is_closed() and each.shutdown() for each in handlers)


def test_who_comes_later_waits_for_the_next_round():
    store = dist.HashStore()
    first, later = handler(store, 1, 2), handler(store, 1, 2)
    times = first.settings.timeout
    times.last_call = datetime.timedelta(seconds=0.2)  # who is alone waits for no more than that
    assert met([first]) == [(0, 1)] and first.num_nodes_waiting() == 0
    infos = []
    thread = threading.Thread(target=lambda: infos.append(later.next_rendezvous()))
    thread.start()
    wait_for(first.num_nodes_waiting)
    times.last_call = later.settings.timeout.last_call  # who waits may be slow to come
    infos.append(first.next_rendezvous())
    thread.join(LIMIT)
    assert sorted((info.rank, info.world_size) for info in infos) == [(0, 2), (1, 2)]
    later.leave()
    times.last_call = datetime.timedelta(seconds=0.2)
    assert met([first]) == [(0, 1)]
    first.shutdown()


def test_too_few_are_an_error():
    alone = handler(dist.HashStore(), 2, 2, join=0.1)
    with pytest.raises(rdzv.RendezvousTimeoutError, match="1 of at least 2"):
        alone.next_rendezvous()
    alone.shutdown()


# --- processes --------------------------------------------------------------------------------------------------------
def double(x):
    import os
    print("rank", os.environ["RANK"], flush=True)
    return 2 * x + int(os.environ["RANK"])


def fails(x):
    raise ValueError(f"no {x}")


def test_functions_are_launched(tmp_path):
    logs = DefaultLogsSpecs(str(tmp_path), redirects=Std.ALL)
    config = LaunchConfig(1, 1, 2, logs, "job", rdzv_endpoint="127.0.0.1:0", rdzv_backend="c10d", max_restarts=0)
    assert elastic_launch(config, double)(3) == {0: 6, 1: 7}
    assert [path.read_text() for path in sorted(tmp_path.rglob("stdout.log"))] == ["rank 0\n", "rank 1\n"]
    with pytest.raises(ChildFailedError) as error:
        elastic_launch(config, fails)("way")
    rank, failure = error.value.get_first_failure()
    assert rank in (0, 1) and failure.exitcode == 1 and "ValueError: no way" in failure.message


def test_processes_are_not_bound_to_cpus():
    config = LaunchConfig(1, 1, 1, None, "job", rdzv_endpoint="127.0.0.1:0", rdzv_backend="c10d",
                          numa_options=NumaOptions(AffinityMode("node")))
    with pytest.raises(NotImplementedError, match="NUMA node of each process's GPU"):
        elastic_launch(config, double)(3)
    with pytest.warns(UserWarning, match="Processes run unbound"):
        refuse_binding(NumaOptions(AffinityMode.SOCKET, should_fall_back_if_binding_fails=True))


def one_fails():
    import os
    import time
    if os.environ["RANK"] == "1":
        os._exit(3)
    time.sleep(600)


def test_who_was_ended_has_not_failed():
    config = LaunchConfig(1, 1, 2, None, "job", rdzv_endpoint="127.0.0.1:0", rdzv_backend="c10d", max_restarts=0)
    with pytest.raises(ChildFailedError) as error:
        elastic_launch(config, one_fails)()
    assert {rank: failure.exitcode for rank, failure in error.value.failures.items()} == {1: 3}


def test_processes_by_themselves(tmp_path):
    given = {0: (1,), 1: (2,)}, {0: {"RANK": "0"}, 1: {"RANK": "1"}}
    done = start_processes("name", double, *given, DefaultLogsSpecs(str(tmp_path), Std.OUT)).wait(LIMIT, 0.05)
    assert done.return_values == {0: 2, 1: 5} and Path(done.stdouts[1]).read_text() == "rank 1\n"
    done = start_processes("name", sys.executable, {0: ("-c", "raise SystemExit(3)")}, {0: {}},
                           DefaultLogsSpecs(str(tmp_path))).wait(LIMIT, 0.05)
    assert done.is_failed() and done.failures[0].exitcode == 3
    sleeping = start_processes("name", sys.executable, {0: ("-c", "import time; time.sleep(600)")}, {0: {}},
                               DefaultLogsSpecs(str(tmp_path)))
    assert sleeping.wait(0.05, 0.01) is None
    sleeping.close()
    assert sleeping.failures()[0].signal_name() == "SIGTERM"
    with pytest.raises(RuntimeError, match="mismatch"):
        start_processes("name", double, {0: ()}, {1: {}}, DefaultLogsSpecs(str(tmp_path)))


def test_states_and_numbers():
    assert WorkerState.is_running(WorkerState.HEALTHY) and not WorkerState.is_running(WorkerState.FAILED)
    kept = []

    class Kept(metrics.MetricHandler):
        def emit(self, metric_data):
            kept.append((metric_data.name, metric_data.value))
    metrics.configure(Kept(), "numbers")
    measured = metrics.prof(lambda: 1, group="numbers")
    assert measured() == 1 and [value for name, value in kept if name.endswith("success")] == [1]
    assert theirs.distributed.is_available() and api.to_map(Std.OUT, 2) == {0: Std.OUT, 1: Std.OUT}


# --- hosts that join and leave ----------------------------------------------------------------------------------------
def begun(folder):
    """(rank, world, first step) of each start of a process."""
    path = folder / "begun"
    return [tuple(map(int, line.split())) for line in path.read_text().splitlines()] if path.exists() else []


def awaited(folder, agents, wanted):
    def is_there():
        assert agents[0].poll() is None, begun(folder)
        return wanted(begun(folder))
    wait_for(is_there, LIMIT)


def test_a_run_goes_on_when_machines_come_and_go(tmp_path):
    with reserved_port() as port:
        run_while_machines_come_and_go(port, tmp_path)
    lines = begun(tmp_path)
    steps = [step for _, _, step in lines]
    # if the second host joins late, the first one starts once more alone
    assert steps == sorted(steps) and [world for _, world, _ in lines].count(2) == 2
    first, second = (step for _, world, step in lines if world == 2)
    assert first == second > 0


def run_while_machines_come_and_go(port, tmp_path):
    command = [sys.executable, "-m", "rushlight.distributed.run", "--nnodes", "1:2", "--nproc-per-node", "1",
               "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}", "--rdzv-id", "x",
               "--rdzv-conf", "last_call_timeout=1", "--max-restarts", "0", str(PROGRAM), str(tmp_path)]
    agents = [subprocess.Popen(command)]
    try:
        awaited(tmp_path, agents, lambda lines: (0, 1, 0) in lines and (tmp_path / "checkpoint").exists())
        agents.append(subprocess.Popen(command))
        awaited(tmp_path, agents, lambda lines: {rank for rank, world, _ in lines if world == 2} == {0, 1})
        agents[1].send_signal(signal.SIGTERM)
        awaited(tmp_path, agents, lambda lines: lines[-1][1] == 1)
        (tmp_path / "stop").touch()
        assert agents[0].wait(LIMIT) == 0 and agents[1].wait(LIMIT) == 128 + signal.SIGTERM
    finally:
        for agent in agents:
            if agent.poll() is None:
                agent.send_signal(signal.SIGTERM)
                agent.wait(LIMIT)
