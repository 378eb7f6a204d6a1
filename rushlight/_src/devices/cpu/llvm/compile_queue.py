"""Code generation on a second thread, while the first one goes on making a plan: LLVM lets go of the interpreter.  When
the plan is made, a third one takes its share of what is left, in place of the first.

The second thread lives from the first compilation to ``end``, with a context and target machines of its own
(``tools``).  The main thread never calls LLVM (``core/apart.py``).  It may be interrupted between any two steps here,
so nothing is waited for under a lock that it takes in Python.
"""
import sys
from collections import deque
from queue import SimpleQueue

from ....core.apart import Completion, begin
from .features import targeted
from .generate import generate, tools, wants_search

SWITCH = 1e-4  # seconds after which the thread that plans lets the other one hand its next text to LLVM


class Compilation:
    """One object file being made: ``image()`` waits for its bytes, and raises what LLVM had against the text."""

    def __init__(self, text, level, features):
        self.text, self.level, self.features, self.completion = text, level, features, Completion()
        self.made = self.error = None

    def run(self, context, machines):
        try:
            self.made = generate(self.text, self.level, context, machines, self.features)
        except Exception as error:  # whoever waits for it raises it
            self.error = error
        self.completion.set()

    def image(self):
        self.completion.wait()
        if self.error is not None:
            raise self.error
        return self.made


class CompileQueue:
    """Compilations in the order they were asked for."""

    def __init__(self):
        # the bell rings once for each that begins to wait, and at the end
        self.waiting, self.bell, self.ended = deque(), SimpleQueue(), False
        self.interval = sys.getswitchinterval()
        sys.setswitchinterval(min(SWITCH, self.interval))
        begin(self.run)

    def add(self, text, level):
        compilation = Compilation(text, level, targeted())
        self.put(compilation)
        return compilation

    def put(self, compilation):
        self.waiting.append(compilation)
        self.bell.put(None)

    def end(self):
        """Lets the thread go when it has done what was asked for."""
        self.ended = True
        self.bell.put(None)
        sys.setswitchinterval(self.interval)

    def next(self):
        """The next compilation, or None where there is none."""
        try:
            return self.waiting.popleft()
        except IndexError:
            return None

    def share(self):
        """Works on what is waiting, beside the second thread, until nothing is."""
        # threads wait for each other where this changes
        for one in sorted(iter(self.next, None), key=lambda one: wants_search(one.text)):
            self.put(one)
        with tools() as (context, machines):
            for one in iter(self.next, None):
                one.run(context, machines)

    def run(self):
        with tools() as (context, machines):
            while not (self.ended and not self.waiting):
                self.bell.get()
                for one in iter(self.next, None):
                    one.run(context, machines)
