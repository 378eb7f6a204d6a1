"""The stack of interpreters, and the one way an operator is called while any is active.

An interpreter gives operators another meaning: tracing them (Trace), mapping over a batch, carrying tangents. The one
on top answers a call; while it does, it is removed from the stack, so its own calls go to the one below. With an empty
stack an operator simply runs, by the plan cache of ``core/native/calls.py``.

All of this belongs to threads: ``mine`` is the calling thread's (``core/native/objects.py``). Its ``stack`` and
``modes`` are tuples, so that each change is one assignment, which no interrupt can split; blocks are Scopes
(``core/native/scopes.py``), which are left in one step.
"""
from __future__ import annotations

import threading

from .native import Scope, held, mine
from .native.scopes import AUTOCAST, GRAD, ON_ERROR, PUSHED, STACK


class Derivatives:
    """What differentiates calls for interpreters and classes with ``__torch_dispatch__``; the eager layer sets it."""

    def linearised(self, op, args, kwargs, wanted, numbers=True):
        """Return the values and the derivative of a call (``eager/linearise.py``)."""
        raise RuntimeError("calls can be differentiated once the package is imported")


derivatives = Derivatives()


def is_recording() -> bool:
    """True if the calling thread records operators for the backward pass."""
    return mine.grad != 0


def is_inference_mode_enabled() -> bool:
    """True if an ``inference_mode`` block is active."""
    return mine.inference != 0


class Carrying(threading.local):
    """Flag of the calling thread: results carry the tangents of arguments on."""

    on = True


carrying = Carrying()


class recording(Scope):
    """A block in which operators are recorded (or not) for the backward pass."""

    def __init__(self, enabled):
        self.enabled = int(enabled)

    def __enter__(self):
        self.outer = held(GRAD, self.outer, None)
        mine.grad = self.enabled


class precision(Scope):
    """A block with another autocast precision (0: operators compute in the dtypes they are given)."""

    def __init__(self, code):
        self.code = code

    def __enter__(self):
        self.outer = held(AUTOCAST, self.outer, None)
        mine.autocast = self.code


class unwound(Scope):
    """Puts the stack back as it was where an error leaves the block."""

    def __enter__(self):
        self.outer = held(STACK | ON_ERROR, self.outer, None)


class Interpreter(Scope):
    """One meaning of a program: ``call(op, args, kwargs)`` answers one operator call.  A context manager."""

    draws = 1  # how many times over random operators draw
    traces = False  # True if it traces the program of one device, for which devices make no difference
    dispatches = False  # True if classes with ``__torch_dispatch__`` answer first, by the operators requested
    breaks = False  # True if a call that it rejects runs uncompiled instead
    reserve = None  # (blocks) -> (seed, first block): how they draw, if not now
    settings_read = None  # the set of (owner, name) whose values the trace depends on, if it is recorded

    def call(self, op, args, kwargs):
        raise NotImplementedError

    def empty(self, meta):
        """Return an uninitialized tensor, or None to allocate memory as usual."""
        return None

    def constant(self, make):
        """A tensor with known contents, which ``make()`` builds."""
        return make()

    def moved(self, tensor, where):
        """A tensor on another device."""
        raise NotImplementedError(f"a tensor goes from {tensor.device} to {where} within a transform: move it before")

    def __enter__(self):
        self.outer = held(PUSHED, self.outer, self)
        mine.stack += (self,)
        return self


class Suspended(Scope):
    """Steps out of the interpreters from ``interpreter`` upwards for a block."""

    def __init__(self, interpreter):
        self.interpreter = interpreter

    def __enter__(self):
        stack = mine.stack
        below = stack[:stack.index(self.interpreter)]
        self.outer = held(STACK, self.outer, None)
        mine.stack = below


class Unwatched(Scope):
    """A block in which operators simply run, whatever interpreters there are."""

    def __enter__(self):
        self.outer = held(STACK, self.outer, None)
        mine.stack = ()


def is_idle() -> bool:
    """True if operators of the calling thread simply run."""
    return not mine.stack and not mine.modes


def active() -> tuple:
    """The interpreters of the calling thread, the one on top last."""
    return mine.stack


def decided(owner, name: str):
    """Record in the interpreters that the program depends on the value of ``owner.name``."""
    for interpreter in mine.stack:
        if interpreter.settings_read is not None:
            interpreter.settings_read.add((owner, name))


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


def is_checkpoint_valid() -> bool:
    """True if gradients go to all leaves, as reentrant checkpoints need: not in a backward pass to chosen inputs."""
    return mine.run is None or mine.run.needed is None
