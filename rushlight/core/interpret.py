"""The stack of interpreters, and the one way an operator is called while any is active.

An interpreter gives operators another meaning: writing them down (Trace), mapping over a batch, carrying tangents.  The one
on top answers a call; while it does, it stands aside, so what it calls in turn goes to the one below.  With an empty
stack an operator simply runs, by the plan cache of ``core/native/plans.py``.
"""
from __future__ import annotations

import threading

from .native import state
from .native.memory import thread_id

stack: list = []
modes: list = []  # modes that see the functions a user calls, before any interpreter does; the innermost last
elsewhere: dict = {}  # what the threads that are not running now had: recording, inference mode, their interpreters
turn = threading.RLock()  # held while the state changes hands, or its owner changes it
NOBODY = -1


def count() -> None:
    """Tells the hot path how many look at calls."""
    state.interpreters = len(stack) + len(modes)


def switch(thread: int) -> None:
    """Puts the state of another thread in place: gradient recording and interpreters belong to threads."""
    with turn:
        owner, state.thread = state.thread, NOBODY  # who looks now, waits
        if owner != thread:
            elsewhere[owner] = state.grad, state.inference, state.autocast, list(stack), list(modes)
            state.grad, state.inference, state.autocast, stack[:], modes[:] = elsewhere.pop(thread, (1, 0, 0, (), ()))
            count()
        state.thread = thread


def sync() -> None:
    """Makes sure that ``state`` is that of the calling thread."""
    thread = thread_id()
    if thread != state.thread:
        switch(thread)


state.thread = thread_id()


class Own:
    """``with own:`` the state is the calling thread's, and stays so for the block."""

    def __enter__(self):
        turn.acquire()
        sync()

    def __exit__(self, *exception):
        turn.release()


own = Own()


def is_recording() -> bool:
    """Whether the calling thread records what it computes for the backward pass."""
    sync()
    return state.grad != 0


def is_inference_mode_enabled() -> bool:
    """Whether an ``inference_mode`` block is active."""
    sync()
    return state.inference != 0


class recording:
    """A block in which operators are recorded (or not) for the backward pass.

    Between ``sync()`` and the assignments nothing is called: there no other thread and no interrupt can come in.
    """

    def __init__(self, enabled):
        self.enabled = int(enabled)

    def __enter__(self):
        sync()
        self.before = state.grad
        state.grad = self.enabled

    def __exit__(self, *exception):
        sync()
        state.grad = self.before


class precision:
    """A block with another autocast precision (0: operators compute in the dtypes they are given)."""

    def __init__(self, code):
        self.code = code

    def __enter__(self):
        sync()
        self.before = state.autocast
        state.autocast = self.code

    def __exit__(self, *exception):
        sync()
        state.autocast = self.before


class unwound:
    """Puts the stack back as it was where an error leaves the block, even one that came between two bytecodes (an interrupt)."""

    def __enter__(self):
        self.before = list(stack)

    def __exit__(self, kind, error, trace):
        if kind is not None:
            with own:
                stack[:] = self.before
                count()


class Interpreter:
    """One meaning of a program: ``call(op, args, kwargs)`` answers one operator call.  A context manager."""

    draws = 1  # how many times over random operators draw
    breaks = False  # whether a call that it refuses runs uncompiled instead
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
        with own:
            stack.append(self)
            count()
        return self

    def __exit__(self, *exception):
        with own:
            stack.remove(self)
            count()


class Suspended:
    """Steps out of the interpreters from ``interpreter`` upwards for a block."""

    def __init__(self, interpreter):
        self.interpreter = interpreter

    def __enter__(self):
        with own:
            at = stack.index(self.interpreter)
            self.rest = stack[at:]
            del stack[at:]
            count()

    def __exit__(self, *exception):
        with own:
            stack.extend(self.rest)
            count()


def is_idle() -> bool:
    """Whether operators of the calling thread simply run.  In this order: the state of another thread does not become this one's by itself."""
    return not state.interpreters and state.thread == thread_id()


def active() -> list:
    """The interpreters of the calling thread, the one on top last."""
    if is_idle():
        return []
    with own:
        return list(stack)


def draws() -> int:
    """How many times over a random operator draws under the active interpreters."""
    times = 1
    for interpreter in active():
        times *= interpreter.draws
    return times


def top():
    """The interpreter that answers the calling thread's next operator; None while operators simply run."""
    if is_idle():
        return None
    with own:
        return stack[-1] if stack else None
