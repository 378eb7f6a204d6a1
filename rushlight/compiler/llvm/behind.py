"""Code generation on a second thread, while the first one goes on making a plan: LLVM lets go of the interpreter.  When the plan is made,
a third one takes its share of what is left, in place of the first.

The second thread lives from the first compilation to ``end``, with a context and target machines of its own (``tools``).  LLVM's bindings hold a lock that
an exception of a signal handler could leave locked for ever, so the main thread, which alone runs such handlers, lets others call them (``apart``).
"""
import sys
import threading
from collections import deque
from _imp import lock_held

from .generate import generate, tools, wants_search

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


def apart(function, *given):
    """What a function gives, called by a thread in which no signal handler runs: the caller waits for another one, if it is the main thread.

    Not where a finder is asked for a module: Python then lets no other thread import anything, and the one that is waited for might have to.
    """
    if threading.current_thread() is not threading.main_thread() or lock_held():
        return function(*given)
    call, done = Call(function, given), threading.Event()
    threading.Thread(target=call.run, args=(done,), name="rushlight code generation", daemon=True).start()
    done.wait()
    if call.error is not None:
        raise call.error
    return call.result


class Call:
    """A call that another thread makes: its result, or its error."""

    def __init__(self, function, given):
        self.function, self.given, self.result, self.error = function, given, None, None

    def run(self, done):
        try:
            self.result = self.function(*self.given)
        except Exception as error:  # whoever waits raises it
            self.error = error
        done.set()


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

    def share(self):
        """Works on what is waiting, beside the second thread, until nothing is."""
        with self.changed:
            self.waiting = deque(sorted(self.waiting, key=lambda one: wants_search(one.text)))  # threads wait for each other where this changes
        with tools() as (context, machines):
            while (one := self.next(wait=False)) is not None:
                one.run(context, machines)

    def next(self, wait):
        """The next compilation; None where there is none, or, for those that wait, will be none."""
        with self.changed:
            if wait:
                self.changed.wait_for(lambda: self.waiting or self.ended)
            return self.waiting.popleft() if self.waiting else None

    def run(self):
        with tools() as (context, machines):
            while (one := self.next(wait=True)) is not None:
                one.run(context, machines)
