"""What users said about functions: disabled, allowed in the graph, constant; and which are compiled already."""
from __future__ import annotations

MARKS: dict = {}  # id of a function -> (the function, its mark)


class Compiled:
    """The mark of a function that ``compile`` made: capture follows the original."""

    def __init__(self, original):
        self.original = original


def put(function, mark):
    """Marks a function: "disabled", "allowed", "constant", "compiling", "break", or Compiled."""
    MARKS[id(function)] = function, mark
    return function


def of(function):
    """The mark of a function, or None."""
    found = MARKS.get(id(function))
    return found[1] if found is not None else None
