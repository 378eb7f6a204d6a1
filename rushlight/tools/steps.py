"""Time of each launch of the programs that run.

    >>> import rushlight as torch
    >>> from rushlight.tools.steps import measured
    >>> f = torch.compile(lambda x, y: (x @ y).relu())
    >>> x = torch.ones(64, 64)
    >>> with measured() as table:
    ...     f(x, x)[0, 0].item()
    64.0
    >>> any("matmul" in row.label for row in table.rows())
    True

``print(table)`` shows the longest first.  Operators that run uncompiled are programs too.  With one thread times are
CPU times, which other processes disturb least.
"""
from __future__ import annotations

import contextlib
import ctypes
import time
from dataclasses import dataclass

from .._src.devices.cpu.code import Code
from .._src.compiler.launch import encode
from .._src.devices.cpu.llvm import pool
from .._src.core.native import memory


@dataclass
class Row:
    """The label of a step, how often it ran, and its total time."""

    label: str
    calls: int = 0
    seconds: float = 0.0


class Table:
    """Times of steps; those that do the same, as in the layers of a model, are one row."""

    def __init__(self):
        self.found = {}
        self.clock = time.process_time if pool.get_num_threads() == 1 else time.perf_counter

    def run(self, address, values):
        """Runs a program step by step."""
        code = Code.known[address]
        for k, launch in enumerate(code.launches):
            words = encode([launch])
            step = (ctypes.c_int64 * len(words))(*words)
            began = self.clock()
            pool.caller("program_run")(ctypes.addressof(step), values)
            row = self.found.setdefault(code.labels[k], Row(code.labels[k]))
            row.seconds += self.clock() - began
            row.calls += 1

    def rows(self):
        """The steps, longest first."""
        return sorted(self.found.values(), key=lambda row: -row.seconds)

    def __str__(self):
        total = sum(row.seconds for row in self.found.values())
        lines = [f"{1e3 * row.seconds:9.3f} ms {row.seconds / total:6.1%} {row.calls:5d}x  {row.label}"
                 for row in self.rows()]
        return "\n".join([f"{1e3 * total:9.3f} ms in {len(lines)} kinds of steps", *lines])


@contextlib.contextmanager
def measured():
    """A Table of the steps of all programs that run in this block, one step at a time."""
    table, before = Table(), memory.program_runner()
    runner = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(table.run)
    memory.set_program_runner(ctypes.cast(runner, ctypes.c_void_p).value)
    try:
        yield table
    finally:
        memory.set_program_runner(before)
