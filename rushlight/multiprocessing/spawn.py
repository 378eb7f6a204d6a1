"""One function in several processes: an error of any ends them all, and is raised with its traceback where they are
joined."""
from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
import traceback

from .._src.core.advice import warn
from .._src.core.platform import here

__all__ = ["ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "spawn",
           "SpawnContext", "start_processes"]


class ProcessException(Exception):
    """A process did not end well: ``error_index`` is its number, ``error_pid`` the system's."""

    def __init__(self, msg: str, error_index: int, error_pid: int):
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """The function raised an error in a process; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """A process ended by ``sys.exit`` with a code other than 0, or by a signal."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def end_with_parent():
    """Request an interrupt of this process when its parent ends, if the system supports it."""
    here.end_with_parent()


def _wrap(fn, i, args, error_file):
    """Run the function in a process: an error is left in the file for the parent."""
    end_with_parent()
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent ended, or ended us
    except Exception:
        with open(error_file, "w", encoding="utf-8") as file:
            file.write(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes that were started."""

    def __init__(self, processes, error_files):
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until a process fails or all have ended; whether all have.

        ``timeout``: seconds to wait at most.  Once one has failed the others are terminated after ``grace_period``
          seconds, and killed if they do not end.
        ProcessRaisedException with the traceback where the function raised an error, ProcessExitedException where the
        process ended otherwise.
        """
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(self.sentinels, timeout=timeout):
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        self.end_all(grace_period)
        raise self.error_of(failed)

    def end_all(self, grace_period: float | None):
        """Ends the processes that still run."""
        deadline = time.monotonic() + (grace_period or 0)
        for process in self.processes:
            process.join(max(0, deadline - time.monotonic()))
        for end in ("terminate", "kill"):
            running = [process for process in self.processes if process.is_alive()]
            for process in running:
                getattr(process, end)()
            deadline = time.monotonic() + (30 if grace_period is None else grace_period)
            for process in running:
                process.join(max(0, deadline - time.monotonic()))
        for process in self.processes:
            process.join()

    def error_of(self, index: int) -> ProcessException:
        """Why a process failed."""
        process = self.processes[index]
        if os.path.exists(self.error_files[index]):
            with open(self.error_files[index], encoding="utf-8") as file:
                text = file.read()
            return ProcessRaisedException(f"\n\n-- Process {index} terminated with the following error:\n{text}", index,
                                          process.pid)
        code = process.exitcode
        if code >= 0:
            return ProcessExitedException(f"process {index} terminated with exit code {code}", index, process.pid, code)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        return ProcessExitedException(f"process {index} terminated with signal {name}", index, process.pid, code, name)


class SpawnContext(ProcessContext):
    """Processes that were started afresh."""


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Runs ``fn(i, *args)`` in ``nprocs`` processes, i from 0 on; waits for them, or returns their ``ProcessContext``
    with ``join=False``.

    ``start_method``: "spawn", "fork" or "forkserver".  With the first and the last ``fn`` has to be a module's
      function, as it is imported in the process.
    """
    context = multiprocessing.get_context(start_method)
    folder = tempfile.TemporaryDirectory(prefix="processes-")
    processes, files = [], []
    for index in range(nprocs):
        files.append(os.path.join(folder.name, f"{index}.txt"))
        processes.append(context.Process(target=_wrap, args=(fn, index, args, files[-1]), daemon=daemon))
        processes[-1].start()
    made = ProcessContext(processes, files)
    made.folder = folder  # goes when the context goes
    if not join:
        return made
    while not made.join():
        pass


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """``start_processes`` with processes that start afresh.

    >>> import rushlight as torch
    >>> torch.multiprocessing.spawn(print, args=("from", "a process"), nprocs=2)  # doctest: +SKIP
    0 from a process
    1 from a process
    """
    if start_method != "spawn":
        warn(f"spawn() starts processes by 'spawn' only, not by {start_method!r}: use "
             f"torch.multiprocessing.start_processes(..., start_method={start_method!r})", FutureWarning)
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
