"""Sequences in which a stretch repeats, such as the layers of a model: where it does, and how the sequence reads with
more such stretches.

An entry of a sequence is a pair ``(form, things)``: what it is, and what it defines and uses.  Things are only told
apart; one is *born* where it first appears.  Stretches are alike if their entries have the same forms, and refer in the
same places to the same things (from before) or to things that are born one stretch later.  So a longer sequence is
known entry by entry: a stretch more refers to things one stretch further on.
"""
from __future__ import annotations

from collections import Counter

import numpy as np

LEAST = 3           # stretches that show how it goes on: one before and one behind the one that is copied
COPIED = 1          # the number of the stretch that is copied
MOST_CANDIDATES = 64


class Irregular(Exception):
    """A sequence does not go on as its stretches do; the text says why."""


class Book(dict):
    """A dict in which a thing that is missing is an irregularity."""

    def __missing__(self, thing):
        raise Irregular(f"{thing} has no counterpart")


def born_in(entries) -> Book:
    """{thing: (entry, place in it) where it first appears}."""
    born = Book()
    for k, (_, things) in enumerate(entries):
        for place, thing in enumerate(things):
            if thing not in born:
                born[thing] = k, place
    return born


class Repetition:
    """``count`` stretches of ``length`` entries from the entry ``start`` on.  ``outer``: things from before that all
    stretches refer to.

    Raises Irregular where stretches refer to more than the one before them.
    """

    def __init__(self, entries, start: int, length: int, count: int, born=None):
        self.entries, self.start, self.length, self.count = entries, start, length, count
        self.end, self.seam = start + count * length, start + (COPIED + 1) * length  # copies go to the seam
        self.born, self.outer = born or born_in(entries), set()
        for k in range(start + length, self.end):
            first = k - (k - start) % length
            for thing, before in zip(entries[k][1], entries[k - length][1]):
                at = self.born[thing][0]
                if thing is before or thing == before:
                    self.outer.add(thing)
                    if at >= start + length:
                        raise Irregular("a stretch refers to one that is not the one before it")
                elif at < first - length:
                    raise Irregular("a stretch reaches back over more than one")

    def stretch_of(self, thing):
        """The number of the stretch that a thing is born in; None for what no other stretch has a counterpart of."""
        at = self.born.get(thing, (-1,))[0]
        return (at - self.start) // self.length if self.start <= at < self.end and thing not in self.outer else None

    def counterpart(self, thing, stretch: int):
        """What a thing of one stretch is in another one."""
        at, place = self.born[thing]
        return self.entries[at + (stretch - self.stretch_of(thing)) * self.length][1][place]


class Longer:
    """A sequence with ``more`` stretches.  Its things are pairs: (thing, 0), or (thing of the copied stretch, number of
    the copy).

    A *shift* says how many stretches further on an entry stands than in the short sequence.
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
        """What an entry of the longer sequence refers to."""
        return [self.thing(entry, place, shift) for place in range(len(self.short.entries[entry][1]))]

    def thing(self, entry: int, place: int, shift: int):
        """One of the things that an entry refers to.  Irregular where what follows the stretches refers to one that is
        not the last."""
        short, length = self.short, self.short.length
        thing = short.entries[entry][1][place]
        at = short.born[thing][0]
        if shift == 0 or thing in short.outer or at >= short.seam or at < short.start:
            return thing, 0
        if entry >= short.seam:
            if at < short.seam - length or entry >= short.seam + length or entry >= short.end:
                raise Irregular("what follows the stretches refers to one of the first")
            return thing, shift
        if at >= short.seam - length:
            return thing, shift
        return short.entries[entry + length][1][place], shift - 1

    def further(self, thing, shift: int):
        """What a thing is ``shift`` stretches further on."""
        stretch = self.short.stretch_of(thing)
        if stretch is None:
            return thing, 0
        wanted = stretch + shift
        if not 0 <= wanted < self.short.count + self.more:
            raise Irregular("a stretch beyond the last")
        copy = min(max(wanted - COPIED, 0), self.more)
        return self.short.counterpart(thing, wanted - copy), copy if wanted - copy == COPIED else 0

    def shift_of(self, thing) -> int:
        """How many stretches further on a thing of the short sequence stands in the longer one."""
        return self.more if self.short.born[thing][0] >= self.short.seam else 0

    def spread(self, things) -> list:
        """A list of things with the copies of those that are copied, stretch by stretch, behind the last of these."""
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
    """Where the longest run of True begins and ends."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], holds.astype(np.int8), [0]))))
    if not len(edges):
        return 0, 0
    best = int((edges[1::2] - edges[::2]).argmax())
    return int(edges[2 * best]), int(edges[2 * best + 1])


def alike(entries, born, k: int, length: int) -> bool:
    """Whether an entry and the one a stretch further on refer to corresponding things."""
    for a, b in zip(entries[k][1], entries[k + length][1]):
        if a is not b and a != b:
            at, place = born[a]
            if born[b] != (at + length, place):
                return False
    return True
