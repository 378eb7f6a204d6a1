"""Memory of a queue that grows and shrinks behind fixed virtual addresses (``expandable_segments``).

A range has more addresses than the device has memory.  Areas are cut where the fewest parts have to be mapped; freed
areas merge with adjacent gaps, so that any later area fits.
"""

from __future__ import annotations

import bisect

PARTS = 1 << 22, 1 << 24  # bytes that are mapped at once: for small blocks, and for others


class Range:
    """Reserved addresses.  ``gaps``: free (address, bytes), sorted; ``parts``: handles of the mapped memory by part
    number."""

    def __init__(self, virtual, part: int, nbytes: int):
        self.virtual, self.part = virtual, -(-part // virtual.least) * virtual.least
        self.size = -(-nbytes // self.part) * self.part
        self.address = virtual.reserve(self.size)
        self.gaps, self.parts = [(self.address, self.size)], {}

    def lacking(self, address: int, size: int) -> list:
        """The numbers of the parts that have to be put behind an area."""
        first, last = (address - self.address) // self.part, (address + size - 1 - self.address) // self.part
        return [number for number in range(first, last + 1) if number not in self.parts]

    def best(self, size: int):
        """(bytes to be put behind it, bytes of the gap, address) of the best place for an area; None where there is
        none."""
        found = [(len(self.lacking(address, size)) * self.part, room, address)
                 for address, room in self.gaps if room >= size]
        return min(found, default=None)

    def take(self, address: int, size: int):
        """Cuts an area from the begin of a gap, with memory behind it.  OutOfMemoryError, and nothing is changed, where
        the device has no more."""
        done = []
        try:
            for number in self.lacking(address, size):
                self.parts[number] = self.virtual.back(self.address + number * self.part, self.part)
                done.append(number)
        except BaseException:
            self.bare(done)
            raise
        at = bisect.bisect_left(self.gaps, (address, 0))
        room = self.gaps[at][1]
        self.gaps[at:at + 1] = [(address + size, room - size)] if room > size else []

    def give(self, address: int, size: int):
        """Takes an area back."""
        at = bisect.bisect_left(self.gaps, (address, 0))
        first, last = at, at
        if at < len(self.gaps) and self.gaps[at][0] == address + size:
            last, size = at + 1, size + self.gaps[at][1]
        if at and sum(self.gaps[at - 1]) == address:
            first, address, size = at - 1, self.gaps[at - 1][0], size + self.gaps[at - 1][1]
        self.gaps[first:last] = [(address, size)]

    def idle(self) -> list:
        """Return the numbers of the parts that overlap no area."""
        starts = [address for address, _ in self.gaps]
        found = []
        for number in self.parts:
            begin = self.address + number * self.part
            at = bisect.bisect_right(starts, begin) - 1
            if at >= 0 and sum(self.gaps[at]) >= begin + self.part:
                found.append(number)
        return found

    def bare(self, numbers: list):
        """Takes the memory behind parts away."""
        for number in numbers:
            self.virtual.bare(self.address + number * self.part, self.part, self.parts[number])
            del self.parts[number]

    def runs(self) -> list:
        """Return (address, bytes) of the mapped intervals, adjacent parts merged."""
        found: list = []
        for number in sorted(self.parts):
            address = self.address + number * self.part
            if found and sum(found[-1]) == address:
                found[-1] = found[-1][0], found[-1][1] + self.part
            else:
                found.append((address, self.part))
        return found


class Ranges:
    """A source of segments from virtual ranges, two for each queue: one for areas of PARTS[0] bytes, which hold small
    blocks, and one for others."""

    def __init__(self, memory, virtual):
        self.memory, self.virtual, self.held = memory, virtual, {}  # by (queue, whether for small blocks): Ranges

    def divides(self, size: int) -> bool:
        """True if areas of ``size`` bytes hold several blocks; others are freed one by one."""
        return size == PARTS[0]

    def enter(self, queue, size: int) -> int:
        """The address of an area with memory behind it."""
        key = queue, self.divides(size)
        held = self.held.setdefault(key, [])
        lacking, _, address, place = self.best(held, size)
        if lacking and self.memory.swept(queue, max(size, self.backed(queue) // 8)):
            lacking, _, address, place = self.best(held, size)
        if place is None:  # no range has such a gap
            part = PARTS[0] if key[1] else PARTS[1]
            place = Range(self.virtual, part, max(size, self.memory.total + self.memory.total // 8))
            held.append(place)
            lacking, _, address = place.best(size)
        self.memory.allowed(lacking)
        before = len(place.parts)
        place.take(address, size)
        if lacking:
            self.memory.entered("segment_map", address, lacking, queue, not before)
        return address

    @staticmethod
    def best(held: list, size: int) -> tuple:
        """The best place for an area, and its Range; the Range is None where there is none."""
        found = [(*place, one) for one in held if (place := one.best(size)) is not None]
        return min(found, key=lambda row: row[:3], default=(size, 0, 0, None))

    def backed(self, queue) -> int:
        """The bytes that a queue has."""
        return sum(len(one.parts) * one.part for small in (True, False) for one in self.held.get((queue, small), ()))

    def leave(self, segment):
        """Takes an area back; the memory behind it stays."""
        self.of(segment.address, segment.queue).give(segment.address, segment.size)

    def of(self, address: int, queue) -> Range:
        """The Range that has an address."""
        return next(one for small in (True, False) for one in self.held.get((queue, small), ())
                    if one.address <= address < one.address + one.size)

    def shrink(self, queues: set):
        """Takes memory away that no area of these queues has, once all work of the device is done."""
        rows = [(key, one, one.idle()) for key, held in self.held.items() if key[0] in queues for one in held]
        if any(idle for _, _, idle in rows):
            self.memory.board.finish()
        for (queue, small), one, idle in rows:
            for number in sorted(idle):
                one.bare([number])
                self.memory.left("segment_unmap", one.address + number * one.part, one.part, queue, not one.parts)
            if not one.parts:
                self.held[queue, small].remove(one)
                self.virtual.forget(one.address, one.size)
        self.held = {key: held for key, held in self.held.items() if held}
