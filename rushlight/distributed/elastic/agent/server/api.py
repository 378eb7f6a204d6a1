"""Elastic agents: an agent joins the rendezvous with those of other hosts, starts the processes with their ranks, and
restarts all if one fails, or if hosts come or go."""
from __future__ import annotations

import abc
import contextlib
import dataclasses
import json
import signal
import threading
import time
import uuid
from collections.abc import Callable
from enum import Enum

from ....._src.core.settings import settings
from ....stores import DistError
from ....watchdog import PERIOD
from ...events import Event, EventSource, record
from ...metrics import prof, put_metric
from ...multiprocessing.api import SignalException
from ...multiprocessing.errors import ProcessFailure
from ...rendezvous.api import RendezvousHandler

DEFAULT_ROLE = "default"


@dataclasses.dataclass
class WorkerSpec:
    """A job of each host: ``local_world_size`` processes of a function or program ``entrypoint`` with ``args``, and the
    rendezvous handler.  ``max_restarts``: the number of restarts after failures; ``monitor_interval``: seconds between
    checks."""

    role: str
    local_world_size: int
    rdzv_handler: RendezvousHandler
    fn: Callable | None = None
    entrypoint: Callable | str | None = None
    args: tuple = ()
    max_restarts: int = 3
    monitor_interval: float = 0.1
    master_port: int | None = None
    master_addr: str | None = None
    local_addr: str | None = None
    event_log_handler: str = "null"

    def __post_init__(self):
        self.entrypoint = self.entrypoint or self.fn
        if self.local_world_size < 1 or self.monitor_interval <= 0 or not self.entrypoint:
            raise ValueError("WorkerSpec wants an entrypoint, local_world_size > 0 and monitor_interval > 0")

    def get_entrypoint_name(self) -> str:
        return self.entrypoint if isinstance(self.entrypoint, str) else self.entrypoint.__qualname__


@dataclasses.dataclass
class Worker:
    """A process of this host, and its ranks."""

    local_rank: int
    global_rank: int = -1
    role_rank: int = -1
    world_size: int = -1
    role_world_size: int = -1
    id: object = None


class WorkerState(str, Enum):
    """The state of a host's processes."""

    UNKNOWN, INIT, HEALTHY, UNHEALTHY = "UNKNOWN", "INIT", "HEALTHY", "UNHEALTHY"
    STOPPED, SUCCEEDED, FAILED = "STOPPED", "SUCCEEDED", "FAILED"

    @staticmethod
    def is_running(state) -> bool:
        return state in (WorkerState.HEALTHY, WorkerState.UNHEALTHY)


class WorkerGroup:
    """The processes of this host, and the result of the last rendezvous: the host's rank, the number of hosts, a store
    that the agents share, and the address of the processes' store."""

    def __init__(self, spec: WorkerSpec):
        self.spec, self.workers = spec, [Worker(local_rank) for local_rank in range(spec.local_world_size)]
        self.store = self.group_rank = self.group_world_size = self.master_addr = self.master_port = None
        self.state, self.token = WorkerState.INIT, ""


@dataclasses.dataclass
class RunResult:
    """The result of a run: return values of functions, or failures, by rank of the world."""

    state: WorkerState
    return_values: dict = dataclasses.field(default_factory=dict)
    failures: dict[int, ProcessFailure] = dataclasses.field(default_factory=dict)

    def is_failed(self) -> bool:
        return self.state is WorkerState.FAILED


class ElasticAgent(abc.ABC):
    """Watches the processes of a host."""

    @abc.abstractmethod
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Runs them until they have ended well, or failed once too often."""

    @abc.abstractmethod
    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """The processes."""


class SimpleElasticAgent(ElasticAgent):
    """An agent without the methods that start, check and end processes.

    In each round agents notify one another by the round's store: "failed" once a process of one has failed, "changed"
    if the hosts must meet again, "left" if one leaves, "done" once one has nothing left to run.
    """

    def __init__(self, spec: WorkerSpec, exit_barrier_timeout: float = 300, shutdown_timeout: float = 30):
        self._worker_group, self.restarts, self.asked = WorkerGroup(spec), 0, None
        self.exit_barrier_timeout, self.shutdown_timeout = exit_barrier_timeout, shutdown_timeout

    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        return self._worker_group

    # --- what agents of a kind do -------------------------------------------------------------------------------------
    @abc.abstractmethod
    def _start_workers(self, worker_group: WorkerGroup) -> dict:
        """Starts the processes; local rank -> id."""

    @abc.abstractmethod
    def _stop_workers(self, worker_group: WorkerGroup):
        """Ends them."""

    @abc.abstractmethod
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        """Return the state of the processes."""

    # --- a round ------------------------------------------------------------------------------------------------------
    @prof
    def _rendezvous(self, worker_group: WorkerGroup):
        """Join the rendezvous with the other hosts, and derive the ranks of the processes."""
        spec = worker_group.spec
        info = spec.rdzv_handler.next_rendezvous()
        group, store = worker_group, info.store
        group.store, group.group_rank, group.group_world_size = store, info.rank, info.world_size
        bootstrap = info.bootstrap_store_info
        group.master_addr = spec.master_addr or bootstrap.master_addr
        group.master_port = spec.master_port or bootstrap.master_port
        store.set(f"machine {info.rank}", json.dumps([spec.role, spec.local_world_size]))
        if info.rank == 0:
            store.set("token", uuid.uuid4().hex)
        every = [json.loads(store.get(f"machine {rank}")) for rank in range(info.world_size)]
        group.token = store.get("token").decode()
        before, after = every[:info.rank], every[info.rank:]
        of_role = [count for role, count in every if role == spec.role]
        first_of_role = sum(count for role, count in before if role == spec.role)
        first, world = sum(count for _, count in before), sum(count for _, count in (*before, *after))
        group.workers = [Worker(k, first + k, first_of_role + k, world, sum(of_role))
                         for k in range(spec.local_world_size)]

    @prof
    def _initialize_workers(self, worker_group: WorkerGroup):
        """Meets, and starts the processes."""
        self._rendezvous(worker_group)
        for local_rank, found in self._start_workers(worker_group).items():
            worker_group.workers[local_rank].id = found
        worker_group.state = WorkerState.HEALTHY

    @prof
    def _restart_workers(self, worker_group: WorkerGroup):
        self._stop_workers(worker_group)
        worker_group.state = WorkerState.STOPPED
        self._initialize_workers(worker_group)

    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Runs the processes.  SignalException if SIGTERM or SIGINT ends the agent; the run continues without it if it
        may."""
        before = {kind: signal.signal(kind, self.note) for kind in (signal.SIGTERM, signal.SIGINT)
                  } if threading.current_thread() is threading.main_thread() else {}
        handler, begun = self._worker_group.spec.rdzv_handler, time.monotonic()
        try:
            result = self._invoke_run(role)
            self.noted(result.state.value)
            return result
        except SignalException:
            with contextlib.suppress(DistError):
                self._worker_group.store.set("left", str(self._worker_group.group_rank))
                getattr(handler, "leave", handler.shutdown)()
            raise
        finally:
            self._stop_workers(self._worker_group)
            put_metric("agent.run.seconds", int(time.monotonic() - begun))
            for kind, previous in before.items():
                signal.signal(kind, previous)

    def note(self, number, frame):
        self.asked = number

    def noted(self, name: str, **more):
        group = self._worker_group
        record(Event(f"torchelastic.worker.status.{name}", EventSource.AGENT, int(time.time() * 1000),
                     {"run_id": group.spec.rdzv_handler.get_run_id(), "group_rank": group.group_rank,
                      "role": group.spec.role, "restarts": self.restarts, **more}), group.spec.event_log_handler)

    def _invoke_run(self, role: str = DEFAULT_ROLE) -> RunResult:
        group, spec = self._worker_group, self._worker_group.spec
        self._initialize_workers(group)
        while True:
            result = self._monitor_workers(group)
            group.state = result.state
            if result.state is WorkerState.SUCCEEDED:
                self._exit_barrier()
                return result
            why = self.trouble(result)
            if result.is_failed():
                result = self._monitor_workers(group)  # further failures, before the remaining processes are ended
            if why == "failed" and self.restarts >= spec.max_restarts:
                self._stop_workers(group)
                return self.last(result)
            if why:
                self.restarts += why == "failed"
                self.noted("RESTARTED", why=why)
                self._restart_workers(group)
            elif self.asked is not None:
                raise SignalException(f"the agent got the signal {self.asked}", signal.Signals(self.asked))
            else:
                time.sleep(spec.monitor_interval)

    def trouble(self, result: RunResult) -> str:
        """Return the reason to restart the processes: "failed" if one has failed, here or on another host, "changed" if
        hosts come or go; "" for no reason."""
        group = self._worker_group
        if result.state in (WorkerState.FAILED, WorkerState.UNHEALTHY):
            # others may have failed too, or have lost one that has gone
            time.sleep(3 * PERIOD if settings.flight_buffer else 0.2)
            if group.store.check(["left"]):
                return "changed"
            group.store.set("failed", str(group.group_rank))
            return "failed"
        if group.group_world_size > 1:
            for why, answer in (("left", "changed"), ("failed", "failed"), ("changed", "changed")):
                if group.store.check([why]):
                    return answer
        if group.spec.rdzv_handler.num_nodes_waiting() > 0 and not group.store.check(["done"]):
            group.store.set("changed", "yes")
            return "changed"
        return ""

    def last(self, result: RunResult) -> RunResult:
        """Return the failures at the end: if all are on another host, one that names it."""
        failures = result.failures
        if not failures:
            there = ProcessFailure(-1, 0, 1, "")
            there.message = f"a process of the host {self._worker_group.store.get('failed').decode()} failed"
            failures = {-1: there}
        return RunResult(WorkerState.FAILED, {}, failures)

    def _exit_barrier(self):
        """Keep the store until all hosts are done and have been notified."""
        group, size = self._worker_group, self._worker_group.group_world_size
        if group.store.add("done", 1) == size:
            group.store.set("all done", "yes")
        if size == 1:
            return
        group.store.get("all done")
        end = time.monotonic() + self.exit_barrier_timeout
        if group.store.add("told", 1) == size:
            return
        with contextlib.suppress(DistError):  # the owner of the store may leave once all are notified
            while group.store.add("told", 0) < size and time.monotonic() < end:
                time.sleep(0.01)
