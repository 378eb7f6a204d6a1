"""A line on standard error during a long compilation, if it is a terminal."""
from __future__ import annotations

import os
import sys
import time

from .advice import caller
from .settings import settings

EVERY = 0.5  # seconds between two states of the line


class Progress:
    """The progress of a compilation: ``begin`` and ``end`` around it (they may nest), ``step`` for each piece."""

    def __init__(self, clock=time.perf_counter):
        self.clock, self.depth, self.shown = clock, 0, False

    def begin(self, name: str):
        if self.depth == 0:
            self.name, self.began, self.pieces, self.next, self.shown = name, self.clock(), 0, settings.progress, False
        self.depth += 1

    def step(self):
        """One piece more is compiled."""
        if self.depth == 0 or not settings.progress:
            return
        self.pieces += 1
        passed = self.clock() - self.began
        if passed >= self.next and sys.stderr.isatty():
            if not self.shown:
                self.name += self.place()
            self.next, self.shown = passed + EVERY, True
            self.show(f"compiling {self.name}: {self.pieces} kernels in {passed:.1f} s", "\r")

    def end(self):
        self.depth -= 1
        if self.depth == 0 and self.shown:
            self.show(f"compiled {self.name}: {self.pieces} kernels in {self.clock() - self.began:.1f} s", "\n")

    @staticmethod
    def place() -> str:
        """The program's function and line that wait for it."""
        frame = caller()
        return f" in {frame.f_code.co_name} ({os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno})"

    @staticmethod
    def show(text, ending):
        sys.stderr.write(f"rushlight: {text:<70}{ending}")
        sys.stderr.flush()


progress = Progress()
