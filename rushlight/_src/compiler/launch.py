"""Launches: what a program runs, one record a kernel, and the integers that ``program_run`` walks for them.

The words of a program are the count of its launches, then of each: the kernel's address, its extent, its grain, the
count of its slots, and what fills each slot.  ``encode`` and ``decode`` alone know that; whoever prints, keeps,
measures or packs a program reads records.
"""
from __future__ import annotations

from typing import NamedTuple

CONSTANT = -1  # the value of a slot that holds its number itself


class Launch(NamedTuple):
    """One run of a kernel: ``extent`` units of work, ``grain`` of which are worth a thread.

    ``slots``: for each argument of the kernel a pair of a value and a number: the value's address and so many bytes
      further, or for ``CONSTANT`` the number.
    Of what is not placed yet a value may be any object; in a program that runs, values are the numbers of its inputs,
    outputs, arena, stream and error flag.  ``kernel``, ``extent``, ``grain`` and the numbers are ints, or what writes
    them (texts in ``eager/filling.py``).
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


HEAD = 4  # words of a launch before its slots


def encode(launches) -> list:
    """The words of a program.

        >>> encode([Launch(4096, 10, 5, ((0, 0), (CONSTANT, 7)))])
        [1, 4096, 10, 5, 2, 0, 0, -1, 7]
    """
    words = [0]
    for launch in launches:
        words += launch.words
        words[0] += 1
    return words


def starts(words):
    """Where each launch begins in the words of a program: the place of its kernel's address."""
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
