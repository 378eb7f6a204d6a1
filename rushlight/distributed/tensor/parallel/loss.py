"""Losses of scores that are split by class."""
from __future__ import annotations

import contextlib

from .._dispatch import inside

__all__ = ["loss_parallel"]


class loss_parallel(contextlib.ContextDecorator):  # noqa: N801 - as PyTorch calls it
    """A block for losses of scores that are split by class, which PyTorch's programs need.  Here the rules of
    primitives keep classes split anyway: a row's largest score and its sum of exponentials travel, and the score of its
    target, never the scores.  Targets and weights may be plain tensors, which are the same in all processes."""

    def __enter__(self):
        inside.losses += 1

    def __exit__(self, *error):
        inside.losses -= 1
