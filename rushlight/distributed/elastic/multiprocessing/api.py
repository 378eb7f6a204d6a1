"""Processes of one host: how they are started, the destinations of their streams, and their results."""
from __future__ import annotations

import abc
import contextlib
import dataclasses
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from enum import IntFlag
from pathlib import Path

from ...._src.core.folder import create, open_own
from ....multiprocessing.spawn import end_with_parent
from .errors import ProcessFailure, record

STREAMS = "stdout", "stderr"


class SignalException(Exception):
    """The agent received a signal that ends it (``sigval``)."""

    def __init__(self, msg: str, sigval: signal.Signals):
        super().__init__(msg)
        self.sigval = sigval


class Std(IntFlag):
    """Streams of a process."""

    NONE, OUT, ERR, ALL = 0, 1, 2, 3

    @classmethod
    def from_str(cls, vm: str):
        """Return the streams of "2", or by local rank of "0:1,1:3".  ValueError for another format."""
        parts = [part.split(":") for part in vm.split(",")]
        if not all(1 <= len(p) <= 2 and all(n.isdigit() for n in p) and int(p[-1]) < 4 for p in parts) or (
                len(parts) > 1 and any(len(p) == 1 for p in parts)):
            raise ValueError(f"{vm!r} does not match: <number>, or <rank>:<number>,... with numbers from 0 to 3")
        return cls(int(vm)) if len(parts[0]) == 1 else {int(rank): cls(int(value)) for rank, value in parts}


def to_map(val_or_map, local_world_size: int) -> dict:
    """A value, or those that a dict has, for each local rank."""
    given = val_or_map if isinstance(val_or_map, dict) else dict.fromkeys(range(local_world_size), val_or_map)
    return {rank: given.get(rank, Std.NONE) for rank in range(local_world_size)}


@dataclasses.dataclass
class LogsDest:
    """Files of each local rank: where streams go instead ("": nowhere else), where also, and the error."""

    stdouts: dict = dataclasses.field(default_factory=dict)
    stderrs: dict = dataclasses.field(default_factory=dict)
    tee_stdouts: dict = dataclasses.field(default_factory=dict)
    tee_stderrs: dict = dataclasses.field(default_factory=dict)
    error_files: dict = dataclasses.field(default_factory=dict)


class LogsSpecs(abc.ABC):
    """Destinations of the streams of processes."""

    def __init__(self, log_dir: str | None = None, redirects=Std.NONE, tee=Std.NONE, local_ranks_filter=None):
        self._root_log_dir, self._redirects, self._tee, self._shown = log_dir, redirects, tee, local_ranks_filter

    @abc.abstractmethod
    def reify(self, envs: dict) -> LogsDest:
        """The files of processes with these variables."""

    @property
    @abc.abstractmethod
    def root_log_dir(self) -> str | None:
        """The directory of all logs."""


class DefaultLogsSpecs(LogsSpecs):
    """Files LOG_DIR/RUN/attempt_N/RANK/stdout.log, stderr.log and error.json."""

    def __init__(self, log_dir: str | None = None, redirects=Std.NONE, tee=Std.NONE, local_ranks_filter=None):
        super().__init__(log_dir or tempfile.mkdtemp(prefix="rushlight_run_"), redirects, tee, local_ranks_filter)

    root_log_dir = property(lambda self: self._root_log_dir)

    def reify(self, envs: dict) -> LogsDest:
        count, found = len(envs), LogsDest()
        redirects, tees = to_map(self._redirects, count), to_map(self._tee, count)
        for rank, env in envs.items():
            folder = Path(self._root_log_dir, env.get("TORCHELASTIC_RUN_ID", "none"),
                          f"attempt_{env.get('TORCHELASTIC_RESTART_COUNT', '0')}", str(rank))
            folder.mkdir(parents=True, exist_ok=True)
            hidden = bool(self._shown) and rank not in self._shown
            for name, stream in zip(STREAMS, (Std.OUT, Std.ERR)):
                path = str(folder / f"{name}.log")
                told = bool(tees[rank] & stream) and not hidden
                kept = bool((redirects[rank] | tees[rank]) & stream) or hidden
                getattr(found, f"{name}s")[rank] = path if kept else ""
                getattr(found, f"tee_{name}s")[rank] = path if told else ""
            found.error_files[rank] = str(folder / "error.json")
            with contextlib.suppress(FileNotFoundError):
                os.remove(found.error_files[rank])
        return found


@dataclasses.dataclass
class RunProcsResult:
    """Results of processes, by local rank."""

    return_values: dict = dataclasses.field(default_factory=dict)
    failures: dict = dataclasses.field(default_factory=dict)
    stdouts: dict = dataclasses.field(default_factory=dict)
    stderrs: dict = dataclasses.field(default_factory=dict)

    def is_failed(self) -> bool:
        return bool(self.failures)


class Tail:
    """Shows each line written to a file with a prefix, until it is stopped."""

    def __init__(self, path: str, target, prefix: str):
        self.path, self.target, self.prefix, self.over = path, target, prefix, threading.Event()
        self.thread = threading.Thread(target=self.show, daemon=True)
        self.thread.start()

    def show(self):
        with open(self.path, "rb") as file:
            while True:
                last = self.over.is_set()
                for line in iter(file.readline, b""):
                    self.target.write(self.prefix + line.decode(errors="replace"))
                    self.target.flush()
                if last:
                    return
                self.over.wait(0.05)

    def stop(self):
        self.over.set()
        self.thread.join()


class PContext(abc.ABC):
    """Running processes.  ``failed``: those that have failed, by local rank."""

    def __init__(self, name: str, entrypoint, args: dict, envs: dict, logs_specs: LogsSpecs, log_line_prefixes=None,
                 start_method: str = "spawn"):
        self.name, self.entrypoint, self.args, self.envs, self.nprocs = name, entrypoint, args, envs, len(args)
        self.start_method, self.processes, self.tails, self.fell = start_method, {}, [], {}
        self.prefixes = log_line_prefixes or {rank: f"[{name}{rank}]:" for rank in args}
        self.logs = logs_specs.reify(envs)

    def start(self):
        """Starts them."""
        for rank in range(self.nprocs):
            env = {**self.envs[rank], "TORCHELASTIC_ERROR_FILE": self.logs.error_files[rank]}
            paths = [getattr(self.logs, f"{name}s")[rank] for name in STREAMS]
            for path in filter(None, paths):
                open(path, "wb").close()
            self.processes[rank] = self.started(rank, env, paths)
        for name in STREAMS:
            self.tails += [Tail(path, getattr(sys, name), self.prefixes[rank])
                           for rank, path in getattr(self.logs, f"tee_{name}s").items() if path]

    @abc.abstractmethod
    def started(self, rank: int, env: dict, paths: list):
        """Start a process with these variables; its streams go to files ("": they are inherited)."""

    @abc.abstractmethod
    def code(self, rank: int) -> int | None:
        """The exit code of a process, None while it runs."""

    def result(self, rank: int):
        """Return the return value of a process's function."""

    def pids(self) -> dict:
        return {rank: process.pid for rank, process in self.processes.items()}

    def failures(self) -> dict:
        found = {rank: ProcessFailure(rank, process.pid, self.code(rank), self.logs.error_files[rank])
                 for rank, process in self.processes.items() if self.code(rank) not in (None, 0)}
        for rank, failure in found.items():
            if not failure.error_file_data:  # it does not say when: when it was first seen
                failure.when = self.fell.setdefault(rank, failure.when)
        return found

    def poll(self) -> RunProcsResult | None:
        """Return the results once all processes have ended well, or one has failed; None before."""
        codes = [self.code(rank) for rank in self.processes]
        if not any(codes) and None in codes:
            return None
        values = {} if any(codes) else {rank: self.result(rank) for rank in self.processes}
        return RunProcsResult(values, self.failures(), self.logs.stdouts, self.logs.stderrs)

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """Poll every ``period`` seconds, for ``timeout`` (below 0: always); None if they still run.  If one has failed,
        the others are ended."""
        end = time.monotonic() + timeout
        while True:
            found = self.poll()
            if found is not None:
                self.close()
                return found
            if 0 <= timeout and end <= time.monotonic():
                return None
            time.sleep(period if timeout < 0 else max(min(period, end - time.monotonic()), 0))

    def close(self, death_sig: signal.Signals | None = None, timeout: float = 30):
        """Ends those that run: by a signal (default SIGTERM), and after ``timeout`` seconds by force."""
        for rank, process in self.processes.items():
            if self.code(rank) is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, death_sig or signal.SIGTERM)
        end = time.monotonic() + timeout
        for rank, process in self.processes.items():
            while self.code(rank) is None and time.monotonic() < end:
                time.sleep(0.01)
            if self.code(rank) is None:
                process.kill()
            (process.join if hasattr(process, "join") else process.wait)()
        while self.tails:
            self.tails.pop().stop()


class SubprocessContext(PContext):
    """Processes of a program; arguments are strings."""

    def started(self, rank, env, paths):
        with contextlib.ExitStack() as stack:
            streams = {name: stack.enter_context(open(path, "ab")) for name, path in zip(STREAMS, paths) if path}
            return subprocess.Popen([self.entrypoint, *map(str, self.args[rank])], env={**os.environ, **env}, **streams)

    def code(self, rank):
        return self.processes[rank].poll()


def run_function(function, args, env, paths, result):
    """Run a function in a new process; its return value goes into a file."""
    end_with_parent()
    os.environ.update(env)
    for number, path in zip((1, 2), paths):
        if path:
            (sys.stdout if number == 1 else sys.stderr).flush()
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
            os.dup2(descriptor, number)
            os.close(descriptor)

    @record
    def run():
        value = function(*args)
        partial = f"{result}.{os.getpid()}.part"
        create(partial, pickle.dumps(value))
        os.replace(partial, result)
    run()
    sys.stdout.flush()
    sys.stderr.flush()


class MultiprocessContext(PContext):
    """Processes of a function."""

    def started(self, rank, env, paths):
        process = multiprocessing.get_context(self.start_method).Process(
            target=run_function, args=(self.entrypoint, self.args[rank], env, paths, self.place(rank)))
        process.start()
        return process

    def place(self, rank) -> str:
        return f"{self.logs.error_files[rank]}.result"

    def code(self, rank):
        return self.processes[rank].exitcode

    def result(self, rank):
        with open(open_own(self.place(rank)), "rb") as file:  # not a file of another user
            return pickle.load(file)
