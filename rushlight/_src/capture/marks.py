"""What users said about functions: disabled, allowed in the graph, constant; and which are compiled already."""
from __future__ import annotations

import weakref

MARKS: dict = {}  # id of a function -> its mark

reordered: set = set()  # functions of users that put something out, and may do so at the end of the segment
ignored: set = set()  # those that need not be called at all


class Compiled:
    """The mark of a function that ``compile`` made, or that a Python one stands for: capture follows ``original``."""

    def __init__(self, original):
        self.original = original


followed: list = []  # objects whose attributes steer framework code: writes take effect while a program is captured


def follow(state):
    """Has capture write the attributes of an object at once, for the rest of the captured program.  Returns it."""
    followed.append(state)
    return state


def is_followed(value) -> bool:
    """True if ``follow`` was called for this very object."""
    return any(value is one for one in followed)


def put(function, mark):
    """Marks a function: "disabled", "allowed", "disallowed", "forbidden", "constant", "compiling", "exporting",
    "collecting", "break", "skipped", "following" (it compiles), or Compiled.  It lasts as long as the function."""
    key = id(function)
    if key not in MARKS and type(function).__weakrefoffset__:  # operators have none, and stay
        weakref.finalize(function, MARKS.pop, key, None)
    MARKS[key] = mark
    return function


def of(function):
    """The mark of a function, or None."""
    return MARKS.get(id(function))
