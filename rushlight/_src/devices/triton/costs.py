"""How long a launch should take: bytes and operations over a GPU's rates, by how many programs its units hold at once.

It orders choices before any is measured, and does not know caches, instructions and waiting.
"""

from __future__ import annotations

from typing import NamedTuple

from .rates import GPU, LAUNCH

CACHE = 2.5  # how much faster the second cache is than memory, about
MOST_PROGRAMS = 32  # that a unit holds
FEW = 24  # rows or columns at which units for products are half busy, about


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
    """How many programs a unit holds at once; 0: not one.

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
    """The time of a launch; infinite where no unit holds a program.

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
    """The part of the rate of units for products that blocks of so many rows and columns reach, about.

    Example:
        >>> filled(128, 128) > 2 * filled(16, 32)
        True
    """
    return rows / (rows + FEW) * columns / (columns + FEW)
