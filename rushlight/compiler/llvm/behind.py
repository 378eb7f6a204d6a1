"""Code generation on a second thread, while the first one goes on making a plan: LLVM lets go of the interpreter.  When the plan is made,
the first thread takes its share of what is left.

The second thread lives from the first compilation to ``end``; it has a context and target machines of its own.
"""
import sys
import threading
from collections import deque

from .generate import generate, wants_search

SWITCH = 1e-4  # seconds after which the thread that plans lets the other one hand its next text to LLVM


class Compilation:
    """One object file being made: ``image()`` waits for its bytes, and raises what LLVM had against the text."""

    def __init__(self, text, level):
        self.text, self.level, self.done = text, level, threading.Event()
        self.made = self.error = None

    def run(self, context, machines):
        try:
            self.made = generate(self.text, self.level, context, machines)
        except Exception as error:  # whoever waits for it raises it
            self.error = error
        self.done.set()

    def image(self):
        self.done.wait()
        if self.error is not None:
            raise self.error
        return self.made


class Line:
    """Compilations in the order they were asked for."""

    def __init__(self):
        self.waiting, self.changed, self.ended = deque(), threading.Condition(), False
        self.interval = sys.getswitchinterval()
        sys.setswitchinterval(min(SWITCH, self.interval))
        threading.Thread(target=self.run, name="rushlight code generation", daemon=True).start()

    def add(self, text, level):
        compilation = Compilation(text, level)
        with self.changed:
            self.waiting.append(compilation)
            self.changed.notify()
        return compilation

    def end(self):
        """Lets the thread go when it has done what was asked for."""
        with self.changed:
            self.ended = True
            self.changed.notify()
        sys.setswitchinterval(self.interval)

    def share(self, context, machines):
        """Works on what is waiting, beside the second thread, until nothing is."""
        with self.changed:
            self.waiting = deque(sorted(self.waiting, key=lambda one: wants_search(one.text)))  # threads wait for each other where this changes
        while (one := self.next(wait=False)) is not None:
            try:
                one.run(context, machines)
            except BaseException:  # an interrupt: the second thread makes it
                with self.changed:
                    self.waiting.appendleft(one)
                    self.changed.notify()
                raise

    def next(self, wait):
        """The next compilation; None where there is none, or, for those that wait, will be none."""
        with self.changed:
            if wait:
                self.changed.wait_for(lambda: self.waiting or self.ended)
            return self.waiting.popleft() if self.waiting else None

    def run(self):
        import llvmlite.binding as llvm

        context, machines = llvm.create_context(), {}
        while (one := self.next(wait=True)) is not None:
            one.run(context, machines)
