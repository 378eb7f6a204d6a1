"""Buffer assignment: the places of a program's temporaries and large results.

A result occupies its memory from the step that writes it first; before that, temporaries may use the memory. So large
results are placed together with temporaries, in one allocation that is divided afterwards (``execute_within`` in
``core/native/running.py``), or in the memory of dead residuals.
"""
from __future__ import annotations

import bisect

from ..core.native.allocator import SMALL
from ..core.native.blocks import HEADER, PAGE, block_bytes
from . import memory
from .places import Temporary


class Parts:
    """Parts of a value, (offset, bytes) each, and the steps that name them: ``value``: its number; ``room``: its bytes;
    ``full``: whether they hold something before the first step."""

    def __init__(self, value: int, parts, room: int, full=False):
        self.value, self.starts, self.room = value, [start for start, _ in parts], room
        self.lives = [memory.Life(size, -1 if full else memory.FOREVER, -1) for _, size in parts]

    def number(self, offset: int) -> int:
        """The number of the part at an offset."""
        return bisect.bisect_right(self.starts, offset) - 1

    def named(self, offset: int, step: int):
        life = self.lives[self.number(offset)]
        life.first, life.last = min(life.first, step), max(life.last, step)

    def taken(self):
        return list(zip(self.lives, self.starts))


class MemoryLayout:
    """``at``: the place of each temporary, {temporary: (value, offset)}; ``size``: the bytes of the arena, which is the
    value ``arena``. ``inside``, ``reused``: the results in the arena, or in the donated input: (number, offset), by
    offset.

    ``results``: the Metas of fresh results, whose values have the numbers from ``first`` on; ``residuals``: the parts
    of one that is written part by part; ``donated``: those of an input that is not read afterwards. ``mixed``: True if
    results may be placed here; ``known``: maps a number that may contain symbols to an int; ``replaceable``: for a
    step, the (value, offset) that it writes and the one that it reads, which may share memory.
    """

    def __init__(self, launches, first: int, results, residuals: Parts | None = None, donated: Parts | None = None,
                 mixed=False, known=int, replaceable=()):
        self.first, self.arena, self.residuals, self.donated = first, first + len(results), residuals, donated
        self.lives: dict = {}
        large = {first + k: meta.nbytes for k, meta in enumerate(results) if meta.nbytes > SMALL} if mixed else {}
        watched = {parts.value: parts for parts in (residuals, donated) if parts is not None}
        for k, launch in enumerate(launches):
            for value, offset in launch.slots:
                if isinstance(value, Temporary):
                    if value not in self.lives:
                        self.lives[value] = memory.Life(max(known(value.nbytes), memory.ALIGNMENT), k, k)
                    self.lives[value].last = k
                elif value in large and value not in self.lives:
                    self.lives[value] = memory.Life(block_bytes(large[value]), k, memory.FOREVER, PAGE)
                if type(value) is int and value in watched:
                    watched[value].named(offset, k)
        self.places: dict = {}
        self.overlaid: dict = {}  # temporaries placed over others: those, or places in the donated input
        self.total = sum(life.size for value, life in self.lives.items() if isinstance(value, Temporary))
        for step, written, read in replaceable:
            self.overlay(step, launches[step].slots, written, read)
        self.arrange()
        self.places.update((value, self.places.get(root, root)) for value, root in self.overlaid.items())
        self.at = {value: place for value, place in self.places.items() if isinstance(value, Temporary)}
        self.inside = self.results_in(self.arena)
        self.reused = self.results_in(donated.value) if donated else ()

    def overlay(self, step: int, slots, written, read):
        """Place the output of a step over an input that this step, and none later, reads: (value, offset) of both."""
        (value, offset), own = written, self.lives.get(written[0])
        if not isinstance(value, Temporary) or offset or own is None or not own.first == step < own.last:
            return
        root, life, part = self.occupant(*read)
        alone = sum(v is read[0] if part is None else v == read[0] and self.donated.number(o) == part
                    for v, o in slots) == 1
        if alone and life is not None and life.last == step and life.size >= own.size:
            self.overlaid[value], life.last = root, own.last
            del self.lives[value]

    def occupant(self, value, offset: int):
        """The owner of the memory at a value's place: (a temporary or a place in the donated input, its Life, the
        number of the part); no Life if the memory cannot be reused."""
        if self.donated is not None and value == self.donated.value and offset in self.donated.starts:
            part = self.donated.number(offset)
            return (value, offset), self.donated.lives[part], part
        root = self.overlaid.get(value, value) if isinstance(value, Temporary) and not offset else None
        if isinstance(root, tuple):
            return root, self.donated.lives[self.donated.number(root[1])], None
        return root, self.lives.get(root), None

    def arrange(self):
        """Fills the donated input, then parts of results before they are written; the rest goes into the arena."""
        if self.donated is not None:
            self.lay_within(self.donated, list(self.lives))
        if self.residuals is not None:
            for life in self.residuals.lives:
                life.last = memory.FOREVER
            self.lay_within(self.residuals,
                            [v for v in self.lives if isinstance(v, Temporary) and v not in self.places])
        left = [value for value in self.lives if value not in self.places]
        if sum(self.lives[value].size for value in left if isinstance(value, Temporary)) <= SMALL:
            left = [value for value in left if isinstance(value, Temporary)]  # results have nothing to share
        offsets, self.size = memory.plan([self.lives[value] for value in left])
        self.places.update((value, (self.arena, offset)) for value, offset in zip(left, offsets))

    def lay_within(self, parts: Parts, values):
        found = memory.within([self.lives[value] for value in values], parts.taken(), parts.room)
        self.places.update((values[k], (parts.value, offset)) for k, offset in found.items())

    def __str__(self):
        donated = self.donated and self.donated.value
        reusing = sum(whole == donated for whole, _ in self.at.values()) if self.donated else 0
        return (f"{len(self.at)} temporaries of {self.total} bytes, {len(self.overlaid)} of them in place, an arena "
                f"of {self.size}, {reusing} of them where residuals lay; "
                f"results: {len(self.inside)} in the arena, {len(self.reused)} where residuals lay")

    def results_in(self, value) -> tuple:
        """The results that lie within another value."""
        found = [(k - self.first, offset) for k, (whole, offset) in self.places.items() if whole == value
                 and not isinstance(k, Temporary)]
        return tuple(sorted(found, key=lambda pair: pair[1]))


def reusable_bytes(nbytes: int) -> int:
    """The bytes of a heap block that are available for reuse, out of all that belong to the block."""
    return block_bytes(nbytes) - HEADER
