"""Launches: one record for each kernel that a program runs, and their encoding for ``program_run``.

An encoded program holds the number of its launches, then for each launch: the kernel's address, its extent, its grain,
its number of slots, and the content of each slot. Only ``encode`` and ``decode`` depend on this format; code that
prints, stores, measures or packs a program reads records.
"""
from __future__ import annotations

from typing import NamedTuple

CONSTANT = -1  # the value of a slot that holds its number itself


class Launch(NamedTuple):
    """One run of a kernel: ``extent`` work units, in tasks of ``grain``.

    ``slots``: for each argument of the kernel a pair: a value and a byte offset from its address, or ``CONSTANT`` and a
    number.
    A value that has no place yet may be any object; in a program that runs, values are the numbers of its inputs,
    outputs, arena, stream and error flag. ``kernel``, ``extent``, ``grain`` and the numbers are ints, or source code
    that computes them (strings in ``eager/filling.py``).
    """

    kernel: object
    extent: object
    grain: object
    slots: tuple

    @property
    def words(self) -> list:
        return [self.kernel, self.extent, self.grain, len(self.slots), *(word for slot in self.slots for word in slot)]


class Table(int):
    """The address of an array that kernels read; another process has it elsewhere."""

    def __new__(cls, array):
        made = super().__new__(cls, array.ctypes.data)
        made.array = array
        return made


HEAD = 4  # int64s of a launch before its slots


def encode(launches) -> list:
    """Encode a program.

        >>> encode([Launch(4096, 10, 5, ((0, 0), (CONSTANT, 7)))])
        [1, 4096, 10, 5, 2, 0, 0, -1, 7]
    """
    words = [0]
    for launch in launches:
        words += launch.words
        words[0] += 1
    return words


def starts(words):
    """Yield the start of each launch in an encoded program: the index of its kernel's address."""
    at = 1
    for _ in range(words[0]):
        yield at
        at += HEAD + 2 * words[at + 3]


def decode(words):
    """The launches of a program.

        >>> list(decode([1, 4096, 10, 5, 2, 0, 0, -1, 7]))
        [Launch(kernel=4096, extent=10, grain=5, slots=((0, 0), (-1, 7)))]
    """
    for at in starts(words):
        kernel, extent, grain, count = words[at:at + HEAD]
        pairs = words[at + HEAD:at + HEAD + 2 * count]
        yield Launch(kernel, extent, grain, tuple(zip(pairs[::2], pairs[1::2])))
