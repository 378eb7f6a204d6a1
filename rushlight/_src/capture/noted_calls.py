"""Calls of modules recorded during capture: their arguments and results, as nodes of the program."""
from __future__ import annotations

from ..core.interpret import active
from ..core.pytree import tree_flatten
from .errors import CaptureError


class Noted:
    """One side of a call: ``leaves`` are nodes, sizes or constants, ``spec`` their tree structure, ``before`` the
    earlier nodes of the program."""

    def __init__(self, recorder, value):
        leaves, self.spec = tree_flatten(value)
        self.leaves = [recorder.lowered(recorder.entered(leaf)) for leaf in leaves]
        self.before = frozenset(recorder.nodes)


class Notes:
    """``kept``: {recorder: [(path, "inputs" or "outputs", Noted)]}, since a restarted capture has its own recorder."""

    def __init__(self):
        self.kept: dict = {}

    def of_last(self) -> list:
        """Return the notes of the last capture."""
        return list(self.kept.values())[-1] if self.kept else []


def note(notes: Notes, path, side, value):
    """Record one side of a call.  CaptureError if no program is captured."""
    running = active()
    if not running:
        raise CaptureError(f"the call of {path or 'the module'} is not captured, so its signature cannot be kept")
    recorder = running[-1]
    notes.kept.setdefault(recorder, []).append((path, side, Noted(recorder, value)))
