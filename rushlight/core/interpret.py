"""The stack of interpreters, and the one way an operator is called while any is active.

An interpreter gives operators another meaning: writing them down (Trace), mapping over a batch, carrying tangents.  The one
on top answers a call; while it does, it stands aside, so what it calls in turn goes to the one below.  With an empty
stack an operator simply runs, by the plan cache of ``core/native/plans.py``.
"""
from __future__ import annotations

from .native import state
from .native.memory import thread_id

stack: list = []
elsewhere: dict = {}  # what the threads that are not running now had: recording, inference mode, their interpreters


def switch(thread: int) -> None:
    """Puts the state of another thread in place: gradient recording and interpreters belong to threads."""
    elsewhere[state.thread] = state.grad, state.inference, list(stack)
    state.grad, state.inference, stack[:] = elsewhere.pop(thread, (1, 0, ()))
    state.interpreters = len(stack)
    state.thread = thread


def sync() -> None:
    """Makes sure that ``state`` is that of the calling thread."""
    thread = thread_id()
    if thread != state.thread:
        switch(thread)


state.thread = thread_id()


class unwound:
    """Puts the stack back as it was where an error leaves the block, even one that came between two bytecodes (an interrupt)."""

    def __enter__(self):
        self.before = list(stack)

    def __exit__(self, kind, error, trace):
        if kind is not None:
            sync()
            stack[:] = self.before
            state.interpreters = len(stack)


class Interpreter:
    """One meaning of a program: ``call(op, args, kwargs)`` answers one operator call.  A context manager."""

    draws = 1  # how many times over random operators draw
    reserve = None  # (blocks) -> (seed, first block): how they draw, if not now

    def call(self, op, args, kwargs):
        raise NotImplementedError

    def empty(self, meta):
        """A tensor with undefined contents, or None: memory is allocated as ever."""
        return None

    def constant(self, make):
        """A tensor with known contents, which ``make()`` builds."""
        return make()

    def __enter__(self):
        sync()
        stack.append(self)
        state.interpreters = len(stack)
        return self

    def __exit__(self, *exception):
        sync()
        stack.remove(self)
        state.interpreters = len(stack)


class Suspended:
    """Steps out of the interpreters from ``interpreter`` upwards for a block."""

    def __init__(self, interpreter):
        self.interpreter = interpreter

    def __enter__(self):
        sync()
        at = stack.index(self.interpreter)
        self.rest = stack[at:]
        del stack[at:]
        state.interpreters = len(stack)

    def __exit__(self, *exception):
        sync()
        stack.extend(self.rest)
        state.interpreters = len(stack)


def draws() -> int:
    """How many times over a random operator draws under the active interpreters."""
    sync()
    times = 1
    for interpreter in stack:
        times *= interpreter.draws
    return times


def dispatch(op, args, kwargs):
    """Calls ``op`` under the interpreter on top of the stack."""
    return stack[-1].call(op, args, kwargs)
