"""Errors of several processes as one."""
from __future__ import annotations

import traceback

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """Errors by rank: ``failures`` is {rank: (exception, its traceback as text)}."""

    def __init__(self, msg: str, failures: dict):
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict:
        return self._failures

    def __str__(self):
        lines = [f"CheckpointException ranks:{self._failures.keys()}"]
        for rank, (error, where) in self._failures.items():
            lines.append(f"Traceback (most recent call last): (RANK {rank})\n{where}{type(error).__name__}: {error}")
        return "\n".join(lines)


def _wrap_exception(exc: BaseException):
    return exc, "".join(traceback.format_tb(exc.__traceback__))


def _is_wrapped_exception(obj) -> bool:
    return isinstance(obj, tuple) and len(obj) == 2 and isinstance(obj[0], BaseException)
