"""What can be logged, and switching it on: every stage between a call and machine code has a logger of its own.

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


class ToStandardError(logging.Handler):
    """Writes to whatever ``sys.stderr`` is now; the names of the log on each line, so that lines can be filtered."""

    def emit(self, record):
        prefix = f"[{record.name.rpartition('.')[2]}] "
        print("\n".join(prefix + line for line in self.format(record).splitlines()), file=sys.stderr)


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
    """Switch on the logs that ``RUSHLIGHT_LOGS`` names, and writing into the folder of ``RUSHLIGHT_DEBUG``."""
    names = [name.strip() for name in settings.logs.split(",") if name.strip()]
    if names:
        set_logs(*names)
    if settings.debug:
        from .stages import Folder
        Folder(settings.debug).install()
