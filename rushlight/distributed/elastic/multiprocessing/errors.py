"""Failed processes and their error files."""
from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import json
import os
import signal
import time
import traceback

HINT = "To enable traceback see: torch.distributed.elastic.multiprocessing.errors.record"


@dataclasses.dataclass
class ProcessFailure:
    """A process that failed: its local rank, exit code (below 0: a signal), and the file with its error."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict = dataclasses.field(init=False)
    message: str = dataclasses.field(init=False)
    timestamp: int = dataclasses.field(init=False)

    def __post_init__(self):
        self.error_file_data, self.message, self.timestamp, self.when = {}, HINT, int(time.time()), time.time()
        if os.path.isfile(self.error_file):
            with open(self.error_file, encoding="utf-8") as file:
                self.error_file_data = json.load(file)
            found = self.error_file_data["message"]
            self.message = found["extraInfo"]["py_callstack"].strip() if isinstance(found, dict) else str(found)
            if isinstance(found, dict):
                self.when = float(found["extraInfo"]["timestamp"])
                self.timestamp = int(self.when)
        else:
            self.error_file = "<N/A>"
            if self.exitcode < 0:
                self.message = f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"

    def signal_name(self) -> str:
        """The name of the signal that ended it, "<N/A>" where none did."""
        return signal.Signals(-self.exitcode).name if self.exitcode < 0 else "<N/A>"

    def timestamp_isoformat(self) -> str:
        return datetime.datetime.fromtimestamp(self.timestamp).isoformat(sep="_")


class ChildFailedError(Exception):
    """Processes of a program failed.  ``failures``: by rank; the first in time is the cause."""

    def __init__(self, name: str, failures: dict):
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self):
        """(rank, failure) of the process that failed first."""
        return min(self.failures.items(), key=lambda item: item[1].when)

    def format_msg(self, boarder_delim="=", section_delim="-") -> str:
        first, _ = self.get_first_failure()
        lines = [boarder_delim * 60, f"{self.name} FAILED", section_delim * 60]
        for title, some in (("Failures:", [rank for rank in self.failures if rank != first]),
                            ("Root Cause (first observed failure):", [first])):
            lines.append(title)
            for k, rank in enumerate(some):
                f = self.failures[rank]
                lines += [f"[{k}]:", f"  time      : {f.timestamp_isoformat()}",
                          f"  rank      : {rank} (local_rank: {f.local_rank})",
                          f"  exitcode  : {f.exitcode} (pid: {f.pid})",
                          f"  error_file: {f.error_file}", f"  traceback : {f.message}"]
            lines += ["  <NO_OTHER_FAILURES>"] if not some else []
        return "\n".join([*lines, boarder_delim * 60])


def record(fn=None, error_handler=None):
    """Decorates a program's main function: its error is written to the file that TORCHELASTIC_ERROR_FILE names, for the
    agent to report."""
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
