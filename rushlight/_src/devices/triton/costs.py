"""Cost model: the time of a launch from bytes and operations over a GPU's rates, and the programs that fit on it.

It orders candidates before any is measured, and ignores details of caches, instructions and latency.
"""

from __future__ import annotations

from typing import NamedTuple

from .rates import GPU, LAUNCH

CACHE = 2.5  # speed of the L2 cache relative to memory, about
MOST_PROGRAMS = 32  # per multiprocessor
FEW = 24  # rows or columns at which tensor cores are half busy, about


class Work(NamedTuple):
    """A launch: its programs; what each does of operations, and reads and writes of bytes, through the caches; bytes
    that memory sees in all; what a program takes of a unit: threads, registers of a thread, shared bytes.  ``kind``: of
    operations (``GPU.rates``); ``filled``: the part of a unit's rate that blocks of this shape reach.
    ``spilled``: registers of a thread that are kept in memory: such a program is not for any unit."""

    programs: int
    operations: float
    traffic: float
    memory: float
    threads: int
    registers: int
    shared: int
    kind: str = "float32"
    filled: float = 1.0
    spilled: int = 0


def resident(gpu: GPU, work: Work) -> int:
    """Return how many programs a multiprocessor holds at once; 0 if none fits.

    Example:
        >>> from .rates import GPUS
        >>> resident(GPUS["sm_90"], Work(1, 0, 0, 0, 128, 128, 64 << 10))
        3
    """
    if work.shared > gpu.shared << 10 or work.spilled:
        return 0
    return min(MOST_PROGRAMS, gpu.threads // work.threads, gpu.registers // (max(work.registers, 16) * work.threads),
               (gpu.shared_unit << 10) // max(work.shared, 1))


def seconds(gpu: GPU, work: Work) -> float:
    """Return the time of a launch; infinite if a program does not fit.

    Example:
        >>> from .rates import GPUS
        >>> copied = Work(1 << 12, 0, 1 << 20, 1 << 32, 128, 16, 0)
        >>> round(seconds(GPUS["sm_90"], copied) * 4.8e12 / (1 << 32), 2)
        1.0
    """
    held = resident(gpu, work)
    if not held:
        return float("inf")
    rate = gpu.rates.get(work.kind, gpu.rates["float32"]) / gpu.units * work.filled
    through = gpu.bandwidth * CACHE / gpu.units
    waves = -(-work.programs // (gpu.units * held))
    last = min(held, -(-(work.programs - (waves - 1) * gpu.units * held) // gpu.units))
    alone = max(work.operations / rate, work.traffic / through)
    return LAUNCH + max(alone * (held * (waves - 1) + last), work.memory / gpu.bandwidth)


def filled(rows: int, columns: int) -> float:
    """Return the part of the tensor cores' rate that blocks of ``rows`` x ``columns`` reach, about.

    Example:
        >>> filled(128, 128) > 2 * filled(16, 32)
        True
    """
    return rows / (rows + FEW) * columns / (columns + FEW)
