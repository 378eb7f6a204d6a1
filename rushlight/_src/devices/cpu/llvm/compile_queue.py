"""Code generation on a second thread, while the first one continues to plan: LLVM releases the GIL.  When the plan is
made, a third thread helps with the remaining compilations, in place of the first.

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
    """One object file being made: ``image()`` waits for its bytes, and raises LLVM's error."""

    def __init__(self, text, level, features):
        self.text, self.level, self.features, self.completion = text, level, features, Completion()
        self.made = self.error = None

    def run(self, context, machines):
        try:
            self.made = generate(self.text, self.level, context, machines, self.features)
        except Exception as error:  # the thread that waits for it raises it
            self.error = error
        self.completion.set()

    def image(self):
        self.completion.wait()
        if self.error is not None:
            raise self.error
        return self.made


class CompileQueue:
    """Compilations in the order in which they were requested."""

    def __init__(self):
        # the bell rings once for each new compilation, and at the end
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
        """End the thread once it has done the requested compilations."""
        self.ended = True
        self.bell.put(None)
        sys.setswitchinterval(self.interval)

    def next(self):
        """Return the next compilation, or None."""
        try:
            return self.waiting.popleft()
        except IndexError:
            return None

    def share(self):
        """Compile what is waiting, concurrently with the second thread, until nothing is."""
        # threads wait for each other when the setting changes
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
