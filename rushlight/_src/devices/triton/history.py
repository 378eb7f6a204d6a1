"""History of a GPU's memory: events, with the stack traces of their origin."""

from __future__ import annotations

import collections
import os
import sys
import time
from typing import NamedTuple

from ...core.native import queues as native
from .segments import listed

HERE = os.path.dirname(__file__)
STATES, CONTEXTS, STACKS = ("state", "all"), (None, "state", "alloc", "all"), ("python", "all")
TAKEN = "alloc", "segment_alloc", "segment_map", "oom"
GIVEN = "free_requested", "free_completed", "segment_free", "segment_unmap"


class Event(NamedTuple):
    """An event; ``stack``: (code, instruction) of each frame, the innermost first."""

    action: str
    address: int
    size: int
    stream: int
    microseconds: int
    stack: tuple


class History:
    """The last ``most`` events of a device's memory (``enabled`` is "all"), and the origins of the blocks in use.
    ``context``: what has a stack trace ("all": all events; "alloc": all but frees; "state": only blocks in use; None:
    nothing); ``skipped``: actions that are not recorded."""

    def __init__(self, enabled="all", context="all", most=sys.maxsize, skipped=()):
        if enabled not in STATES:
            raise ValueError(f"enabled must be None, 'state' or 'all', not {enabled!r}")
        if context not in CONTEXTS:
            raise ValueError(f"context must be None, 'state', 'alloc' or 'all', not {context!r}")
        unknown = set(skipped) - {*TAKEN, *GIVEN}
        if unknown:
            raise ValueError(f"there is no action {min(unknown)!r}: there are {', '.join(sorted((*TAKEN, *GIVEN)))}")
        self.enabled, self.context, self.skipped = enabled, context, frozenset(skipped)
        self.events = collections.deque(maxlen=min(most, sys.maxsize))
        self.live: dict = {}  # by the address of a block, or of a segment's begin: (its stack, bytes asked for)
        self.segments: dict = {}

    def go_on(self, before: "History"):
        """Take over the events of another history."""
        self.events.extend(list(before.events))
        self.live.update(before.live)
        self.segments.update(before.segments)

    def note(self, action: str, address: int, size: int, stream: int, requested=None):
        """Record an event.  ``requested``: the bytes that the program requested."""
        stack = self.stack(action)
        if action == "alloc":
            self.live[address] = stack if self.context else (), requested
        elif action == "free_completed":
            self.live.pop(address, None)
        elif action in ("segment_alloc", "segment_map"):
            self.segments[address] = stack
        elif action in ("segment_free", "segment_unmap"):
            self.segments.pop(address, None)
        if self.enabled == "all" and action not in self.skipped:
            kept = stack if self.context == "all" or self.context == "alloc" and action in TAKEN else ()
            self.events.append(Event(action, address, size, stream, time.time_ns() // 1000, kept))

    def stack(self, action: str) -> tuple:
        """Return the stack of the program, without the frames of this package."""
        if self.context is None or self.context != "all" and action in GIVEN:
            return ()
        frame, found = sys._getframe(1), []
        while frame is not None and frame.f_code.co_filename.startswith(HERE):
            frame = frame.f_back
        while frame is not None:
            found.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        return tuple(found)

    def given(self, memory):
        """Record frees that happened in native code: blocks from before the history that are on the free lists."""
        for queue in memory.queues():
            for address in listed(queue, 0):
                size = memory.size_at(address)
                if native.unlist_block(queue, 0, address):
                    self.note("free_requested", address, size, queue.stream)
                    self.note("free_completed", address, size, queue.stream)

    def trace(self) -> list:
        """The events as ``torch.cuda.memory._snapshot`` gives them."""
        return [{"action": one.action, "device_free" if one.action == "oom" else "addr": one.address, "size": one.size,
                 "stream": one.stream, "time_us": one.microseconds, "compile_context": "N/A", "user_metadata": "",
                 "frames": frames(one.stack)} for one in list(self.events)]


def line_of(code, instruction: int) -> int:
    """The line of an instruction."""
    found = code.co_firstlineno
    for begin, end, line in code.co_lines():
        if begin <= instruction < end and line is not None:
            found = line
    return found


def frames(stack: tuple) -> list:
    """A stack as the viewer of memory reads it."""
    return [{"filename": code.co_filename, "line": line_of(code, at), "name": code.co_name} for code, at in stack]
