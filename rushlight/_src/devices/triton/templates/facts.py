"""Compiler results for templates' blocks: registers per thread, spilled registers, shared memory.

``facts.txt`` has a row for each compiled one (``python -m tests.gpu.templates --facts`` adds rows):

    GPU, kind of elements, elements of a head, kernel, numbers of the blocks: registers, spilled, shared bytes
"""
from __future__ import annotations

import functools
import pathlib
from typing import NamedTuple

TABLE = pathlib.Path(__file__).with_name("facts.txt")
LIKE = (("sm_10", "sm_100"), ("sm_12", "sm_80"), ("sm_8", "sm_80"), ("sm_9", "sm_90"), ("gfx9", "gfx942"),
        ("gfx1", "gfx1201"))  # beginnings of names, and the GPU whose rows stand for them


class Facts(NamedTuple):
    """``spilled``: registers of a thread that are spilled to memory; ``shared``: bytes of a program."""

    registers: int
    spilled: int
    shared: int


@functools.cache
def table() -> dict:
    """{(GPU, kind, head, kernel): {blocks: Facts}}."""
    found: dict = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, facts = line.split(": ")
            gpu, kind, head, kernel, *blocks = name.split()
            found.setdefault((gpu, kind, int(head), kernel), {})[tuple(map(int, blocks))] = Facts(
                *map(int, facts.split()))
    return found


def known_as(gpu: str) -> str:
    """Return the GPU of the table that represents a GPU.

    Example:
        >>> known_as("sm_89"), known_as("gfx950"), known_as("")
        ('sm_80', 'gfx942', 'sm_90')
    """
    return next((name for start, name in LIKE if gpu.startswith(start)), "sm_90")


def facts_of(architectures: str, kind: str, head: int, kernel: str) -> dict:
    """Return {blocks: Facts} of a kernel on all of the GPUs named, the worst of each; empty if one has no rows.

    Example:
        >>> facts_of("sm_90", "half", 128, "Forward")[64, 64, 4, 2].spilled
        0
    """
    rows = [table().get((known_as(name), kind, head, kernel), {}) for name in architectures.split() or [""]]
    return {blocks: Facts(*map(max, zip(*(row[blocks] for row in rows)))) for blocks in rows[0]
            if all(blocks in row for row in rows)}
