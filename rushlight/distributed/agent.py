"""Watches the processes of a program on one machine: starts them with their ranks, keeps their logs, and starts all
again where one fails."""
from __future__ import annotations

import contextlib
import datetime
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from .._src.core.settings import settings
from .stores import DistNetworkError, PrefixStore
from .tcp_store import TCPStore
from .watchdog import PERIOD

GRACE = 5.0  # seconds between asking a process to end and ending it


@dataclass
class Nodes:
    """Machines of a run: where they meet (port 0: a free one), how many there are at least and at most, this one's rank
    (None: dealt out)."""

    host: str
    port: int
    least: int
    most: int
    rank: int | None
    run_id: str
    wait: float


@dataclass
class Failure:
    """A process that failed: its ranks, exit code (below 0: a signal), what it wrote of its error, and when."""

    rank: int
    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    message: str
    when: float

    def cause(self) -> str:
        if self.exitcode < 0:
            return f"Signal {-self.exitcode} ({signal.Signals(-self.exitcode).name}) received by PID {self.pid}"
        return self.message


class ChildFailedError(Exception):
    """A process of a program failed.  ``failures``: by rank; the first in time is the cause."""

    def __init__(self, name: str, failures: list):
        self.name, self.failures = name, {f.rank: f for f in failures}
        super().__init__(self.text(name, failures))

    def get_first_failure(self):
        """(rank, failure) of the process that failed first."""
        return min(self.failures.items(), key=lambda item: item[1].when)

    def text(self, name, failures) -> str:
        first = min(failures, key=lambda f: f.when)
        lines = ["=" * 60, f"{name} FAILED", "-" * 60]
        for title, some in (("Failures:", [f for f in failures if f is not first]),
                            ("Root Cause (first observed failure):", [first])):
            lines.append(title)
            for k, f in enumerate(some):
                when = datetime.datetime.fromtimestamp(f.when).strftime("%Y-%m-%d_%H:%M:%S")
                lines += [f"[{k}]:", f"  time      : {when}", f"  rank      : {f.rank} (local_rank: {f.local_rank})",
                          f"  exitcode  : {f.exitcode} (pid: {f.pid})",
                          f"  error_file: {f.error_file}", f"  traceback : {f.cause()}"]
            lines += ["  <NO_OTHER_FAILURES>"] if not some else []
        return "\n".join([*lines, "=" * 60])


class Agent:
    """Runs ``count`` processes of a command on this machine, together with the agents of other machines."""

    def __init__(self, command, count, nodes: Nodes, folder, redirects, tees, max_restarts=0, interval=0.1,
                 role="default", shown=()):
        self.command, self.count, self.nodes, self.folder = command, count, nodes, Path(folder)
        self.redirects, self.tees, self.max_restarts, self.interval, self.role, self.shown = (redirects, tees,
                                                                                              max_restarts, interval,
                                                                                              role, shown)
        self.restarts, self.processes, self.readers, self.asked = 0, [], [], None

    # --- machines -----------------------------------------------------------------------------------------------------
    def meet(self):
        """Finds the other machines: this one's rank and the ranks of its processes."""
        nodes = self.nodes
        wait = datetime.timedelta(seconds=nodes.wait)
        keeps = nodes.rank == 0 if nodes.rank is not None else is_here(nodes.host)
        try:
            self.store = TCPStore(nodes.host, nodes.port, None, keeps, wait, wait_for_workers=False)
        except DistNetworkError:
            if nodes.rank is not None or not keeps:
                raise
            # another agent of this machine keeps it
            self.store = TCPStore(nodes.host, nodes.port, None, False, wait, wait_for_workers=False)
        self.keys = PrefixStore(f"run {nodes.run_id}", self.store)
        self.node = nodes.rank if nodes.rank is not None else self.keys.add("nodes", 1) - 1
        if self.node >= nodes.most:
            raise RuntimeError(f"the run {nodes.run_id} has its {nodes.most} machines already")
        self.keys.set(f"count {self.node}", str(self.count))
        self.size = self.agreed()
        counts = [int(self.keys.get(f"count {k}")) for k in range(self.size)]
        self.first, self.world = sum(counts[:self.node]), sum(counts)

    def agreed(self) -> int:
        """How many machines there are: the most that may come, or those that have come when the time to wait is
        over."""
        nodes = self.nodes
        if nodes.least == nodes.most or nodes.rank is not None:
            return nodes.most
        if self.node == 0:
            end = time.monotonic() + nodes.wait
            while self.keys.add("nodes", 0) < nodes.most and time.monotonic() < end:
                if self.keys.add("nodes", 0) >= nodes.least and time.monotonic() > end - nodes.wait + min(
                        30.0, nodes.wait):
                    break
                time.sleep(0.1)
            come = self.keys.add("nodes", 0)
            if come < nodes.least:
                raise TimeoutError(
                    f"{come} of at least {nodes.least} machines have come within {nodes.wait:.0f} seconds")
            self.keys.set("size", str(min(come, nodes.most)))
        return int(self.keys.get("size"))

    # --- processes ----------------------------------------------------------------------------------------------------
    def environment(self, local: int, errors: Path) -> dict:
        rank = self.first + local
        told = {"RANK": rank, "LOCAL_RANK": local, "WORLD_SIZE": self.world, "LOCAL_WORLD_SIZE": self.count,
                "GROUP_RANK": self.node, "GROUP_WORLD_SIZE": self.size, "ROLE_RANK": rank,
                "ROLE_WORLD_SIZE": self.world, "ROLE_NAME": self.role, "MASTER_ADDR": self.nodes.host,
                "MASTER_PORT": self.store.port, "TORCHELASTIC_RESTART_COUNT": self.restarts,
                "TORCHELASTIC_MAX_RESTARTS": self.max_restarts, "TORCHELASTIC_RUN_ID": self.nodes.run_id,
                "TORCHELASTIC_USE_AGENT_STORE": True, "TORCHELASTIC_ERROR_FILE": errors}
        if self.count > 1 and "OMP_NUM_THREADS" not in os.environ:
            told["OMP_NUM_THREADS"] = 1  # processes share the processors
        return {**os.environ, **{name: str(value) for name, value in told.items()}}

    def place(self, local: int) -> Path:
        return self.folder / self.nodes.run_id / f"attempt_{self.restarts}" / str(local)

    def start(self):
        self.processes, self.readers = [], []
        for local in range(self.count):
            place = self.place(local)
            place.mkdir(parents=True, exist_ok=True)
            streams = {}
            for name in ("stdout", "stderr"):
                kept, shown = name in self.redirects[local] or name in self.tees[
                    local], not self.shown or local in self.shown
                hidden = name in self.redirects[local] and name not in self.tees[local] or not shown
                streams[name] = None if not kept and shown else open(place / f"{name}.log",
                                                                     "wb") if hidden else subprocess.PIPE
            process = subprocess.Popen(self.command, env=self.environment(local, place / "error.json"), **streams)
            for name, stream in streams.items():
                if stream is subprocess.PIPE:
                    self.copy(getattr(process, name), place / f"{name}.log", getattr(sys, name), local)
                elif stream is not None:
                    stream.close()
            self.processes.append(process)

    def copy(self, source, path, target, local):
        """Copies a stream to a file and to this process's own, with the rank before each line."""
        def read():
            with open(path, "wb") as file, source:
                for line in source:
                    file.write(line)
                    file.flush()
                    target.write(f"[{self.role}{local}]:{line.decode(errors='replace')}")
                    target.flush()
        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        self.readers.append(thread)

    def stop(self, how=signal.SIGTERM):
        """Ends all processes, at first by asking."""
        for process in self.processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(how)
        end = time.monotonic() + GRACE
        for process in self.processes:
            try:
                process.wait(max(end - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for thread in self.readers:
            thread.join(GRACE)

    def watch(self):
        """Waits until all processes have ended well (an empty list), or one has failed here (failures) or on another
        machine (None)."""
        while True:
            codes = [process.poll() for process in self.processes]
            if any(code not in (None, 0) for code in codes):
                self.keys.set(f"failed {self.restarts}", str(self.node))
                # others may have failed too: who was first is told by their files
                time.sleep(3 * PERIOD if settings.flight_buffer else 0.2)
                return [self.failure(local) for local, process in enumerate(self.processes)
                        if process.poll() not in (None, 0)]
            if all(code == 0 for code in codes):
                return []
            if self.size > 1 and self.keys.check([f"failed {self.restarts}"]):
                return None
            if self.asked is not None:
                raise KeyboardInterrupt(f"signal {self.asked}")
            time.sleep(self.interval)

    def failure(self, local: int) -> Failure:
        """What a process left of its error."""
        process, path = self.processes[local], self.place(local) / "error.json"
        message, when = "To enable traceback see: torch.distributed.elastic.multiprocessing.errors.record", time.time()
        if path.exists():
            found = json.loads(path.read_text())["message"]
            if isinstance(found, dict):
                message, when = found["extraInfo"]["py_callstack"].strip(), float(found["extraInfo"]["timestamp"])
            else:
                message = str(found)
        return Failure(self.first + local, local, process.pid, process.returncode, str(path) if path.exists()
                       else "<N/A>", message, when)

    def run_all(self):
        while True:
            self.start()
            failures = self.watch()
            if failures == []:
                return
            self.stop()
            if self.restarts >= self.max_restarts:
                raise ChildFailedError(self.command[-1] if len(self.command) < 3 else self.command[2], failures or [
                    Failure(-1, -1, os.getpid(), 1, "<N/A>",
                            f"a process of the machine {self.keys.get(f'failed {self.restarts}').decode()} failed",
                            time.time())])
            self.restarts += 1

    def run(self):
        """Runs the processes until they have ended.  ChildFailedError where one fails once too often."""
        before = {kind: signal.signal(kind, self.note)
                  for kind in (signal.SIGTERM,
                               signal.SIGINT)} if threading.current_thread() is threading.main_thread() else {}
        self.meet()
        try:
            self.run_all()
            self.part()
        finally:
            self.stop()
            for kind, handler in before.items():
                signal.signal(kind, handler)
            self.store.close()

    def note(self, number, frame):
        self.asked = number

    def part(self):
        """Keeps the store until all machines are done, and know it."""
        if self.size == 1:
            return
        if self.keys.add("done", 1) == self.size:
            self.keys.set("all done", "yes")
        self.keys.get("all done")
        if self.store.server is not None:
            while self.keys.add("told", 0) < self.size - 1:
                time.sleep(0.01)
        else:
            with contextlib.suppress(DistNetworkError):  # who keeps the store may go as soon as it is told
                self.keys.add("told", 1)

    def sweep(self):
        """Removes what the run has kept in a folder of its own."""
        shutil.rmtree(self.folder, ignore_errors=True)


def is_here(host: str) -> bool:
    """Whether a name or address is this machine's."""
    if host in ("localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()):
        return True
    with contextlib.suppress(OSError):
        addresses = {info[4][0] for info in socket.getaddrinfo(host, None)}
        return bool(addresses & {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)})
    return False


def record(fn=None, error_handler=None):
    """Decorates a program's main function: what it raises is left in the file that TORCHELASTIC_ERROR_FILE names, for
    the agent to report."""
    if fn is None:
        return functools.partial(record, error_handler=error_handler)

    @functools.wraps(fn)
    def recorded(*args, **kwargs):
        try:
            return fn(*args, **kwargs)
        except SystemExit:
            raise
        except BaseException as error:
            leave_error(error)
            raise

    return recorded


def leave_error(error):
    """Writes an error into the file that the agent reads; an earlier one stays."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path and not os.path.exists(path):
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        found = {"message": {"message": f"{type(error).__name__}: {error}",
                             "extraInfo": {"py_callstack": text, "timestamp": str(time.time())}}}
        with contextlib.suppress(OSError), open(path, "w") as file:
            json.dump(found, file)
