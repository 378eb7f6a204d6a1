"""Grad modes: enable or disable recording of operators for the backward pass."""
from __future__ import annotations

from ..core.decorating import DecoratingContext
from ..core.interpret import is_inference_mode_enabled, is_recording  # noqa: F401 - the first for users
from ..core.native import Scope, held, mine
from ..core.native.scopes import GRAD, INFERENCE


def set_recording(enabled: bool):
    """Enable or disable recording of operators for the backward pass, in this thread."""
    mine.grad = int(bool(enabled) and not mine.inference)


class GradMode(Scope, DecoratingContext):
    """A context manager and decorator that sets recording on or off for a block or a function."""

    enabled = False

    def __enter__(self):
        enabled = int(self.enabled)
        self.outer = held(GRAD, self.outer, None)
        mine.grad = enabled if mine.inference == 0 else 0
        return self


class no_grad(GradMode):
    """Operators in the block are not recorded; usable as ``with no_grad():`` and ``@no_grad()``."""

    def __new__(cls, orig_func=None):
        made = super().__new__(cls)
        if orig_func is not None:
            return made(orig_func)
        return made

    def __init__(self, orig_func=None):
        super().__init__()


class enable_grad(no_grad):
    """Operators in the block are recorded, also within ``no_grad``; within ``inference_mode`` nothing is."""

    enabled = True


class inference_mode(GradMode):
    """Like ``no_grad``, for code that never needs gradients: results inside are never saved for a backward pass, and
    must not be written outside.

    >>> import rushlight as rl
    >>> with rl.inference_mode():
    ...     x = rl.ones(2)
    >>> x.is_inference(), x.clone().is_inference()
    (True, False)
    """

    def __new__(cls, mode=True):
        made = super().__new__(cls)
        if callable(mode):
            made.mode = True
            return made(mode)
        return made

    def __init__(self, mode=True):
        super().__init__()
        self.mode = mode

    def clone(self):
        return type(self)(self.mode)

    def __enter__(self):
        grad, inference = (0, 1) if self.mode else (1, 0)
        self.outer = held(GRAD | INFERENCE, self.outer, None)
        mine.grad, mine.inference = grad, inference
        return self


class set_grad_enabled(GradMode):
    """Sets recording to ``mode``, at once and until the block (if any) ends."""

    def __init__(self, mode: bool):
        super().__init__()
        self.enabled, enabled = bool(mode), int(mode)
        self.previous = mine.grad
        mine.grad = enabled if mine.inference == 0 else 0

    def clone(self):
        return type(self)(self.enabled)

    def __enter__(self):
        mine.grad = self.previous
        return super().__enter__()

    def __call__(self, function):
        mine.grad = self.previous
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """True if operators are being recorded."""
    return is_recording()
