"""Processes that run one function, or one program, with their logs and errors."""
from __future__ import annotations

from .api import (DefaultLogsSpecs, LogsDest, LogsSpecs, MultiprocessContext, PContext, RunProcsResult,
                  SignalException, Std, SubprocessContext, to_map)
from .errors import ProcessFailure

__all__ = ["DefaultLogsSpecs", "LogsDest", "LogsSpecs", "MultiprocessContext", "PContext", "ProcessFailure",
           "RunProcsResult", "SignalException", "Std", "SubprocessContext", "start_processes", "to_map"]


def start_processes(name: str, entrypoint, args: dict, envs: dict, logs_specs: LogsSpecs, log_line_prefixes=None,
                    start_method: str = "spawn") -> PContext:
    """Starts a process for each local rank from 0 on: a function, or a program with string arguments.

    ``args`` and ``envs``: arguments and variables of each.  RuntimeError if these are not for the same ranks.
    """
    count = len(args)
    for what, given in (("args", args), ("envs", envs)):
        if set(given) != set(range(count)):
            raise RuntimeError(f"{what}, local rank mapping mismatch, expected: {set(range(count))}, actual: "
                               f"{set(given)}")
    kind = SubprocessContext if isinstance(entrypoint, str) else MultiprocessContext
    context = kind(name, entrypoint, args, envs, logs_specs, log_line_prefixes, start_method)
    try:
        context.start()
    except Exception:
        context.close()
        raise
    return context
