"""Users' marks on functions: disabled, allowed in the graph, constant; and which are compiled already."""
from __future__ import annotations

import weakref

MARKS: dict = {}  # id of a function -> its mark

reordered: set = set()  # functions of users that make output, and may run at the end of the segment
ignored: set = set()  # functions that need not be called


class Compiled:
    """The mark of a function made by ``compile``, or replaced by a Python one: capture inlines ``original``."""

    def __init__(self, original):
        self.original = original


followed: list = []  # objects whose attributes control framework code: writes take effect while a program is captured


def follow(state):
    """Apply writes to an object's attributes at once, for the rest of the captured program.  Return it."""
    followed.append(state)
    return state


def is_followed(value) -> bool:
    """True if ``follow`` was called for this very object."""
    return any(value is one for one in followed)


def put(function, mark):
    """Mark a function: "disabled", "allowed", "disallowed", "forbidden", "constant", "compiling", "exporting",
    "collecting", "break", "skipped", "following" (it compiles), or Compiled.  The mark lasts as long as the
    function."""
    key = id(function)
    if key not in MARKS and type(function).__weakrefoffset__:  # operators have none, and are permanent
        weakref.finalize(function, MARKS.pop, key, None)
    MARKS[key] = mark
    return function


def of(function):
    """Return the mark of a function, or None."""
    return MARKS.get(id(function))
