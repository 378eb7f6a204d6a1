"""Values that are computed when they are first asked for."""
from __future__ import annotations


class Thunk:
    """The result of a function, which runs once."""

    def __init__(self, f):
        self.f, self.r = f, None

    def force(self):
        if self.f is not None:
            self.f, self.r = None, self.f()
        return self.r
