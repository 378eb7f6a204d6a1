"""Loggers of the launcher and its workers."""
from __future__ import annotations

import inspect
import logging
import os

from ...._src.core.later import later

__getattr__ = later(__name__)


def get_log_level() -> str:
    """Return the level in the variable LOGLEVEL, else "WARNING"."""
    return os.environ.get("LOGLEVEL", "WARNING")


def get_logger(name=None) -> logging.Logger:
    """The logger of a name, by default that of the caller's module; it writes from the level of LOGLEVEL on.

    >>> from rushlight.distributed.elastic.utils.logging import get_logger
    >>> get_logger("mine").name
    'mine'
    """
    if name is None:
        module = inspect.getmodule(inspect.stack()[1].frame)
        name = module.__name__ if module else "main"
    found = logging.getLogger(name)
    found.setLevel(get_log_level())
    return found
