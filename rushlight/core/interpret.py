"""The stack of interpreters, and the one way an operator is called while any is active.

An interpreter gives operators another meaning: writing them down (Trace), mapping over a batch, carrying tangents.  The one
on top answers a call; while it does, it stands aside, so what it calls in turn goes to the one below.  With an empty
stack an operator simply runs, by the plan cache of ``core/native/calls.py``.

All of this belongs to threads: ``mine`` is the calling thread's (``core/native/objects.py``).  Its ``stack`` and ``modes`` are tuples, so that
each change is one assignment, between whose halves no interrupt can come.
"""
from __future__ import annotations

from .native import mine


def is_recording() -> bool:
    """Whether the calling thread records what it computes for the backward pass."""
    return mine.grad != 0


def is_inference_mode_enabled() -> bool:
    """Whether an ``inference_mode`` block is active."""
    return mine.inference != 0


class recording:
    """A block in which operators are recorded (or not) for the backward pass."""

    def __init__(self, enabled):
        self.enabled = int(enabled)

    def __enter__(self):
        self.before = mine.grad
        mine.grad = self.enabled

    def __exit__(self, *exception):
        mine.grad = self.before


class precision:
    """A block with another autocast precision (0: operators compute in the dtypes they are given)."""

    def __init__(self, code):
        self.code = code

    def __enter__(self):
        self.before = mine.autocast
        mine.autocast = self.code

    def __exit__(self, *exception):
        mine.autocast = self.before


class unwound:
    """Puts the stack back as it was where an error leaves the block, even one that came between two bytecodes (an interrupt)."""

    def __enter__(self):
        self.before = mine.stack

    def __exit__(self, kind, error, trace):
        if kind is not None:
            mine.stack = self.before


def without(entries: tuple, one) -> tuple:
    """Entries of a stack but the last that is ``one``.  ValueError if none is."""
    at = len(entries) - 1 - entries[::-1].index(one)
    return entries[:at] + entries[at + 1:]


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
        mine.stack += (self,)
        return self

    def __exit__(self, *exception):
        mine.stack = without(mine.stack, self)


class Suspended:
    """Steps out of the interpreters from ``interpreter`` upwards for a block."""

    def __init__(self, interpreter):
        self.interpreter = interpreter

    def __enter__(self):
        stack = mine.stack
        at = stack.index(self.interpreter)
        self.rest = stack[at:]
        mine.stack = stack[:at]

    def __exit__(self, *exception):
        mine.stack += self.rest


def is_idle() -> bool:
    """Whether operators of the calling thread simply run."""
    return not mine.stack and not mine.modes


def active() -> tuple:
    """The interpreters of the calling thread, the one on top last."""
    return mine.stack


def draws() -> int:
    """How many times over a random operator draws under the active interpreters."""
    times = 1
    for interpreter in mine.stack:
        times *= interpreter.draws
    return times


def top():
    """The interpreter that answers the calling thread's next operator; None while operators simply run."""
    stack = mine.stack
    return stack[-1] if stack else None
