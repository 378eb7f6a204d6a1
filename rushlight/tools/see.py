"""``python -m rushlight.tools.see script.py``: every stage from a user's line to machine code.

    python -m rushlight.tools.see script.py                          all new plans, by the line that needed them
    python -m rushlight.tools.see script.py --line 12                only line 12, compiled afresh however often it ran before
    python -m rushlight.tools.see script.py --stages graph,kernels   some stages (by the names of logs; default: all but the next two)
    python -m rushlight.tools.see script.py --stages output          the host program as Python that runs
    python -m rushlight.tools.see script.py --stages asm --line 12   the machine code

Of a line that calls a compiled function it shows the graph that was captured, what cuts its forward from its backward,
and how both became steps.

What follows ``--`` are the script's own arguments.
"""
from __future__ import annotations

import argparse
import contextlib
import linecache
import logging
import os
import runpy
import sys

STAGES = "graph_breaks,guards,plans,graph,aot,fusion,memory,kernels"


class ByLine(logging.Handler):
    """Prints log records under a heading for the line of the script that caused them."""

    def __init__(self, script: str, only: int | None):
        super().__init__()
        self.script, self.only, self.last = script, only, None

    def emit(self, record):
        line = self.line()
        if line is None or self.only is not None and line != self.only:
            return
        if line != self.last:
            self.last = line
            print(f"\n=== {os.path.basename(self.script)}:{line}: {linecache.getline(self.script, line).strip()}")
        print(f"--- {record.name.rpartition('.')[2]}: {self.format(record)}")

    def line(self):
        """The line of the script that is running, or None."""
        frame = sys._getframe()
        while frame is not None and frame.f_code.co_filename != self.script:
            frame = frame.f_back
        return frame and frame.f_lineno


def forget_everything():
    """Drops plans and compiled kernels, so that what comes next shows every stage."""
    from .._src.compiler import segment
    from .._src.devices.cpu.llvm import jit
    from .._src.compiling import reset
    from .._src.core.op import forget

    reset()
    segment.made.clear()
    forget()
    jit.forget()


def forgetting(script: str, line: int):
    """A trace function that forgets when a line of the script begins for the first time."""
    def local(frame, event, argument):
        if event == "line" and frame.f_lineno == line:
            forget_everything()
            sys.settrace(None)
            return None
        return local

    return lambda frame, event, argument: local if frame.f_code.co_filename == script else None


@contextlib.contextmanager
def watching(handler, stages):
    """Sends the logs of these stages to the handler for a block."""
    from .._src.core.log import logger

    loggers = [logger(name) for name in stages]
    before = [(one, one.level, one.propagate) for one in loggers]
    for one in loggers:
        one.addHandler(handler)
        one.setLevel(logging.DEBUG)
        one.propagate = False
    try:
        yield
    finally:
        for one, level, propagate in before:
            one.removeHandler(handler)
            one.setLevel(level)
            one.propagate = propagate


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m rushlight.tools.see", description=__doc__.split("\n\n")[0],
                                     epilog="Arguments after -- go to the script.")
    parser.add_argument("script")
    parser.add_argument("--line", type=int, help="show only this line of the script")
    parser.add_argument("--stages", default=STAGES, help=f"logs to show, with commas (default: {STAGES})")
    given = sys.argv[1:] if arguments is None else list(arguments)
    cut = given.index("--") if "--" in given else len(given)
    options = parser.parse_args(given[:cut])
    if not os.path.exists(options.script):
        parser.error(f"there is no file {options.script!r}")
    stages = [name.strip() for name in options.stages.split(",") if name.strip()]
    if "asm" in stages:
        os.environ["RUSHLIGHT_CACHE"] = "0"  # only what is compiled now can be shown
    from .._src.compat.finder import install
    from .._src.core.log import LOGS

    unknown = [name for name in stages if name not in LOGS]
    if unknown:
        parser.error(f"there is no stage {', '.join(unknown)}; there are {', '.join(LOGS)}")
    install()
    script = os.path.abspath(options.script)
    sys.argv = [options.script, *given[cut + 1:]]
    sys.path[0] = os.path.dirname(script)
    with watching(ByLine(script, options.line), stages):
        if options.line is not None:
            sys.settrace(forgetting(script, options.line))
        try:
            runpy.run_path(script, run_name="__main__")
        finally:
            sys.settrace(None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
