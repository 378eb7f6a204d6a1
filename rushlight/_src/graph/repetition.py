"""Repeated subgraphs in a sequence, such as the layers of a model: find them, and extend the sequence by more of them.

An entry of a sequence is a pair ``(form, values)``: its operation, and the values that it defines and uses. Only the
identity of values matters; a value is *born* where it first appears. Repetitions are alike if their entries have the
same forms and refer, at the same positions, either to the same earlier values or to values born one repetition later.
So every entry of a longer sequence is determined: each further repetition refers to the values one repetition later.
"""
from __future__ import annotations

from collections import Counter

import numpy as np

LEAST = 3           # repetitions needed to extend the sequence: the copied one, one before it and one after it
COPIED = 1          # index of the repetition that is copied
MOST_CANDIDATES = 64


class Irregular(Exception):
    """The sequence cannot be extended by its repeated subgraph; the message says why."""


class Book(dict):
    """A dict that raises Irregular for a missing key."""

    def __missing__(self, thing):
        raise Irregular(f"{thing} has no counterpart")


def born_in(entries) -> Book:
    """{value: (entry, position in it) where it first appears}."""
    born = Book()
    for k, (_, things) in enumerate(entries):
        for place, thing in enumerate(things):
            if thing not in born:
                born[thing] = k, place
    return born


class Repetition:
    """``count`` repetitions of ``length`` entries, from the entry ``start`` on. ``outer``: earlier values that all
    repetitions refer to.

    Raises Irregular if a repetition refers to one further back than its predecessor.
    """

    def __init__(self, entries, start: int, length: int, count: int, born=None):
        self.entries, self.start, self.length, self.count = entries, start, length, count
        self.end, self.seam = start + count * length, start + (COPIED + 1) * length  # copies are inserted here
        self.born, self.outer = born or born_in(entries), set()
        for k in range(start + length, self.end):
            first = k - (k - start) % length
            for thing, before in zip(entries[k][1], entries[k - length][1]):
                at = self.born[thing][0]
                if thing is before or thing == before:
                    self.outer.add(thing)
                    if at >= start + length:
                        raise Irregular("a repetition refers to one that is not its predecessor")
                elif at < first - length:
                    raise Irregular("a repetition refers to one further back than its predecessor")

    def stretch_of(self, thing):
        """The index of the repetition in which a value is born; None for a value without a counterpart in the
        others."""
        at = self.born.get(thing, (-1,))[0]
        return (at - self.start) // self.length if self.start <= at < self.end and thing not in self.outer else None

    def counterpart(self, thing, stretch: int):
        """The counterpart of a value in another repetition."""
        at, place = self.born[thing]
        return self.entries[at + (stretch - self.stretch_of(thing)) * self.length][1][place]


class Longer:
    """A sequence extended by ``more`` repetitions. Its values are pairs: (value, 0), or (value of the copied
    repetition, number of the copy).

    The *shift* of an entry is the number of repetitions by which it moves back relative to the short sequence.
    """

    def __init__(self, repetition: Repetition, more: int):
        self.short, self.more = repetition, more

    def entries(self):
        """(entry of the short sequence, shift) in order."""
        short = self.short
        yield from ((k, 0) for k in range(short.seam))
        for copy in range(1, self.more + 1):
            yield from ((k, copy) for k in range(short.seam - short.length, short.seam))
        yield from ((k, self.more) for k in range(short.seam, len(short.entries)))

    def things(self, entry: int, shift: int) -> list:
        """The values that an entry of the longer sequence refers to."""
        return [self.thing(entry, place, shift) for place in range(len(self.short.entries[entry][1]))]

    def thing(self, entry: int, place: int, shift: int):
        """One of the values that an entry refers to. Raises Irregular if an entry after the repetitions refers to one
        other than the last."""
        short, length = self.short, self.short.length
        thing = short.entries[entry][1][place]
        at = short.born[thing][0]
        if shift == 0 or thing in short.outer or at >= short.seam or at < short.start:
            return thing, 0
        if entry >= short.seam:
            if at < short.seam - length or entry >= short.seam + length or entry >= short.end:
                raise Irregular("an entry after the repetitions refers to one other than the last")
            return thing, shift
        if at >= short.seam - length:
            return thing, shift
        return short.entries[entry + length][1][place], shift - 1

    def further(self, thing, shift: int):
        """The counterpart of a value ``shift`` repetitions later."""
        stretch = self.short.stretch_of(thing)
        if stretch is None:
            return thing, 0
        wanted = stretch + shift
        if not 0 <= wanted < self.short.count + self.more:
            raise Irregular("a repetition beyond the last")
        copy = min(max(wanted - COPIED, 0), self.more)
        return self.short.counterpart(thing, wanted - copy), copy if wanted - copy == COPIED else 0

    def shift_of(self, thing) -> int:
        """The number of repetitions by which a value of the short sequence moves back in the longer one."""
        return self.more if self.short.born[thing][0] >= self.short.seam else 0

    def spread(self, things) -> list:
        """Return a list of values with the copies of the copied ones inserted after the last of these, one repetition
        at a time."""
        copied = [thing for thing in things if self.short.stretch_of(thing) == COPIED]
        made = [(thing, 0) for thing in things]
        if copied:
            last = max(k for k, thing in enumerate(things) if self.short.stretch_of(thing) == COPIED)
            made[last + 1:last + 1] = [(thing, copy) for copy in range(1, self.more + 1) for thing in copied]
        return made


def find(entries, check=lambda run: None) -> Repetition | None:
    """The repetition that covers most of a sequence, or None; ``check`` raises Irregular for one that is not asked
    for."""
    numbers: dict = {}
    forms = np.array([numbers.setdefault(form, len(numbers)) for form, _ in entries])
    born, found = born_in(entries), []
    for length in distances(forms.tolist()):
        start, stop = longest(forms[:-length] == forms[length:])
        if stop - start >= (LEAST - 1) * length:
            found.append((stop - start + length, -length, start, stop))
    for _, length, start, stop in sorted(found, reverse=True):
        length = -length
        first, last = longest(np.array([alike(entries, born, k, length) for k in range(start, stop)]))
        count = (last - first) // length + 1
        if count >= LEAST:
            try:
                made = Repetition(entries, start + first, length, count, born)
                check(made)
                return made
            except Irregular:
                continue
    return None


def distances(forms) -> list:
    """How far apart equal entries are, the most frequent distances."""
    last, found = {}, Counter()
    for k, form in enumerate(forms):
        if form in last:
            found[k - last[form]] += 1
        last[form] = k
    return [distance for distance, times in found.most_common(MOST_CANDIDATES) if times >= LEAST - 1]


def longest(holds) -> tuple:
    """The bounds of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], holds.astype(np.int8), [0]))))
    if not len(edges):
        return 0, 0
    best = int((edges[1::2] - edges[::2]).argmax())
    return int(edges[2 * best]), int(edges[2 * best + 1])


def alike(entries, born, k: int, length: int) -> bool:
    """True if an entry and the one a repetition later refer to corresponding values."""
    for a, b in zip(entries[k][1], entries[k + length][1]):
        if a is not b and a != b:
            at, place = born[a]
            if born[b] != (at + length, place):
                return False
    return True
