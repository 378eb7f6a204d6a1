"""The logs: every stage between a call and machine code has a logger of its own.

    RUSHLIGHT_LOGS=plans,fusion python train.py
"""
from __future__ import annotations

import logging
import sys

from .settings import settings

LOGS = {
    "plans": "each new plan: an operator, and what it does for these arguments",
    "graph": "the program a plan traced, as Python",
    "stages": "each stage of a compilation: how large it leaves the program, and how long it took",
    "aot": "forward and backward programs, and what crosses between them",
    "fusion": "how many kernels the nodes became",
    "kernels": "each kernel's loops, and what runs by templates or NumPy",
    "memory": "the arena of each program, and how much its temporaries would take without sharing",
    "asm": "the machine code of what is compiled now (nothing for what the cache holds)",
    "autotune": "what max-autotune tried for each contraction, with times",
    "timing": "how long each compilation took",
    "cache": "what the disk cache dropped or could not store",
    "guards": "what a compiled function assumes",
    "graph_breaks": "where capture stopped, why, and the remedy",
    "recompiles": "which assumption failed",
    "dynamic": "which numbers and sizes became symbols, and what was decided about them",
    "output": "the host program as Python that runs",
    "buckets": "which gradients DistributedDataParallel averages together, and where; which parameters fully_shard "
               "brings together, and when",
}


def logger(name: str) -> logging.Logger:
    """The logger of one of ``LOGS``."""
    if name not in LOGS:
        raise ValueError(f"there is no log {name!r}; there are {', '.join(LOGS)}")
    return logging.getLogger(f"rushlight.{name}")


class NamedLines(logging.Formatter):
    """The name of the log on each line, so that lines can be filtered."""

    def format(self, record):
        prefix = f"[{record.name.rpartition('.')[2]}] "
        return "\n".join(prefix + line for line in super().format(record).splitlines())


class ToStandardError(logging.Handler):
    """Writes to whatever ``sys.stderr`` is now, and appends to a file if there is one."""

    def __init__(self):
        super().__init__()
        self.setFormatter(NamedLines())
        self.file = None

    def emit(self, record):
        text = self.format(record)
        print(text, file=sys.stderr)
        if self.file is not None:
            print(text, file=self.file, flush=True)

    def configure(self, path: str, style: str):
        """Append to the file at ``path`` too, if that is not empty; format by ``style``, if that is not empty.

        OSError if the file cannot be opened, ValueError for a style that ``logging.Formatter`` refuses."""
        if style:
            self.setFormatter(logging.Formatter(logging.BASIC_FORMAT if style in ("short", "basic") else style))
        if path:
            self.file = open(path, "a", encoding="utf-8")


handler = ToStandardError()


def set_logs(*names: str, **switches: bool):
    """Switches logs on and off: ``set_logs("plans", "graph")``, ``set_logs(fusion=True, plans=False)``; ``set_logs()``
    switches all off.

    ``all`` means every log.  ValueError for a name that ``LOGS`` does not have.
    """
    chosen = dict.fromkeys(names, True) | switches
    if "all" in chosen:
        chosen = dict.fromkeys(LOGS, chosen.pop("all")) | chosen
    if not chosen:
        chosen = dict.fromkeys(LOGS, False)
    for name, on in chosen.items():
        target = logger(name)
        target.removeHandler(handler)
        if on:
            target.addHandler(handler)
        target.setLevel(logging.DEBUG if on else logging.NOTSET)
        target.propagate = not on


def from_environment():
    """Switch on the logs that ``RUSHLIGHT_LOGS`` names, with the configured file and format, and writing into the
    directories of ``RUSHLIGHT_DEBUG`` and ``TORCH_COMPILE_DEBUG``."""
    handler.configure(settings.torch_logs_out, settings.torch_logs_format)
    names = [name.strip() for name in settings.logs.split(",") if name.strip()]
    if names:
        set_logs(*names)
    if settings.debug:
        from .stages import Folder
        Folder(settings.debug).install()
    if settings.compile_debug:
        from .stages import CompileDebugFolder
        CompileDebugFolder(settings.compile_debug_dir).install()
