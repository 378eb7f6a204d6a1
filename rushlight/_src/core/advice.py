"""Warnings about user code, attributed to the user's line, however deep in the package they arise."""
from __future__ import annotations

import sys
import warnings
from pathlib import Path

INSIDE = (f"{Path(__file__).parents[2]}/", "<frozen ")  # files whose lines tell a user nothing


class Given:
    """How many warnings were given: a plan whose making gave some is not kept on disk, where it would be silent."""

    count = 0


def caller():
    """The innermost frame outside of the package; the outermost one where all are inside."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INSIDE):
        frame = frame.f_back
    return frame


def warn(message: str, category: type = UserWarning) -> None:
    """Warns of the line of the program that is being run.  Python's filters decide whether it shows, as for
    ``warnings.warn``.

    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warn("mind the gap")
    >>> str(seen[0].message)
    'mind the gap'
    """
    Given.count += 1
    frame = caller()
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__")
                           or "<string>", registry)


def deprecated(name: str, instead: str, category: type = UserWarning) -> None:
    """Warn that a function is deprecated, and name its replacement.

    >>> with warnings.catch_warnings(record=True) as seen:
    ...     deprecated("torch.qr", "torch.linalg.qr")
    >>> str(seen[0].message)
    '`torch.qr` is deprecated: write `torch.linalg.qr`.'
    """
    warn(f"`{name}` is deprecated: write `{instead}`.", category)
