"""Memory that all ranks of a group map, and how they find it."""
from __future__ import annotations

import ctypes
import json
import os
import threading

from .._src.core.forking import guarded
from .._src.core.platform import here
from .kernels import LINE
from .stores import Store

STATES = ("", "here", "left", "failed")
PAGE = 4096
LARGEST_SLOT, SMALLEST_SLOT, ALL_SLOTS = 1 << 21, 1 << 16, 1 << 24
LARGEST_RING, SMALLEST_RING, ALL_RINGS = 1 << 18, 1 << 14, 1 << 24
WITHIN: dict = {}  # token -> the arena of a group whose ranks are threads of this process
GUARD = guarded("groups", threading.Lock())


def rounded(nbytes: int) -> int:
    return -(-nbytes // PAGE) * PAGE


def share_of(whole: int, parts: int, least: int, most: int) -> int:
    """Return the power of two at or below a part of ``whole``, between two bounds."""
    return min(max(1 << (whole // parts).bit_length() - 1, least), most)


class Arena:
    """Mapped memory: a word for each rank and one for all, states, slots, and a ring buffer for each pair of ranks.

    A rank of another process locks its own byte of the file: the system unlocks it however the process ends.
    """

    def __init__(self, file, size: int, separate: bool = True):
        self.size, self.file, self.separate, self.pid = size, file, separate, os.getpid()
        self.slot = share_of(ALL_SLOTS, size, SMALLEST_SLOT, LARGEST_SLOT)
        self.ring = share_of(ALL_RINGS, size * size, SMALLEST_RING, LARGEST_RING)
        states, slots = rounded((size + 1) * LINE), 2 * rounded((size + 1) * LINE)
        rings = slots + 2 * size * self.slot
        self.words = file.address
        self.states, self.slots, self.rings = self.words + states, self.words + slots, self.words + rings

    @staticmethod
    def length(size: int) -> int:
        slot, ring = share_of(ALL_SLOTS, size, SMALLEST_SLOT, LARGEST_SLOT), share_of(ALL_RINGS, size * size,
                                                                                      SMALLEST_RING, LARGEST_RING)
        return 2 * rounded((size + 1) * LINE) + 2 * size * slot + size * size * (ring + 2 * LINE)

    def ring_of(self, source: int, target: int) -> int:
        """Return the address of the ring buffer from one rank to another: bytes written, bytes read, then the data."""
        return self.rings + (source * self.size + target) * (self.ring + 2 * LINE)

    def state(self, rank: int):
        return ctypes.c_int32.from_address(self.states + rank * LINE)

    def owner(self, rank: int):
        return ctypes.c_int32.from_address(self.states + rank * LINE + 4)

    def enter(self, rank: int):
        """Mark this rank as present."""
        if self.separate:
            self.file.claim(rank)
        self.owner(rank).value = os.getpid()
        self.state(rank).value = STATES.index("here")

    def leave(self, rank: int, state: str):
        """Mark this rank as ``state`` ("left" or "failed")."""
        if os.getpid() == self.pid and self.state(rank).value == STATES.index("here"):
            self.state(rank).value = STATES.index(state)

    def state_of(self, rank: int) -> str:
        """Return "here", "left", "failed", or "ended" for a rank whose process has ended."""
        state = STATES[self.state(rank).value]
        if state != "here" or not self.separate or self.owner(rank).value == self.pid:
            return state
        return "here" if self.file.claimed(rank) else "ended"


def opened(told: dict, size: int):
    """Return the arena that rank 0 published; None if this process cannot reach it."""
    if told["machine"] != here.machine():
        return None
    with GUARD:
        if told["token"] in WITHIN and told["pid"] == os.getpid():
            WITHIN[told["token"]].separate = False
            return WITHIN[told["token"]]
    try:
        return Arena(here.opened(told["path"], Arena.length(size)), size)
    except OSError:
        return None


def arena_for(store: Store, rank: int, size: int):
    """Return the arena of a group whose ranks all call this with one store; None if they do not share memory."""
    token = None
    if rank == 0:
        file = here.shared(Arena.length(size))
        arena = Arena(file, size)
        token = f"{os.getpid()} {id(arena)}"
        WITHIN[token] = arena
        store.set("arena", json.dumps({"machine": here.machine(), "pid": os.getpid(), "path": file.path,
                                       "token": token}))
    else:
        arena = opened(json.loads(store.get("arena")), size)
        store.set(f"sees {rank}", "yes" if arena else "no")
    try:
        if rank == 0:
            together = all([store.get(f"sees {other}") == b"yes" for other in range(1, size)])
            file.unlink()
            store.set("together", "yes" if together else "no")
        together = store.get("together") == b"yes"
    finally:
        WITHIN.pop(token, None)
    if together:
        arena.enter(rank)
        if store.add("entered", 1) == size:
            store.set("all entered", "yes")
        store.get("all entered")
    return arena if together else None
