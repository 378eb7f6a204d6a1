"""Logging of calls of ``torch.distributed``: nothing is logged until a program adds a handler."""
from __future__ import annotations

import functools
import logging
import time

from . import membership

_DEFAULT_DESTINATION = "default"
_log_handlers: dict = {_DEFAULT_DESTINATION: logging.NullHandler()}  # by destination


def _get_logging_handler(destination: str = _DEFAULT_DESTINATION) -> tuple:
    """(the handler of a destination, its name)."""
    handler = _log_handlers[destination]
    return handler, f"{type(handler).__name__}-{destination}"


def _get_or_create_logger(destination: str = _DEFAULT_DESTINATION) -> logging.Logger:
    """The logger whose records go to a destination."""
    handler, name = _get_logging_handler(destination)
    logger = logging.getLogger(f"c10d-{name}")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    if handler not in logger.handlers:
        handler.setFormatter(logging.Formatter("%(asctime)s %(filename)s:%(lineno)s %(levelname)s p:%(processName)s "
                                               "t:%(threadName)s: %(message)s"))
        logger.addHandler(handler)
    return logger


_c10d_logger = _get_or_create_logger()


def _get_msg_dict(func_name: str, *args, **kwargs) -> dict:
    """Return the log fields of a call."""
    if not membership.is_initialized():
        return {"func_name": func_name}
    group = kwargs.get("group") or kwargs.get("process_group")
    return {"func_name": func_name, "pg_name": str(getattr(membership.chosen(group), "group_name", "")),
            "backend": str(membership.get_backend(group)), "world_size": str(membership.get_world_size()),
            "group_size": str(membership.get_world_size(group)), "global_rank": str(membership.get_rank()),
            "local_rank": str(membership.get_rank(group))}


def _exception_logger(func):
    """A function whose errors are logged, and raised."""
    @functools.wraps(func)
    def logged(*args, **kwargs):
        try:
            return func(*args, **kwargs)
        except Exception as error:
            try:
                known = _get_msg_dict(func.__name__, *args, **kwargs)
            except (RuntimeError, ValueError) as unknown:  # raised for the group, which may be the cause of the error
                known = {"func_name": func.__name__, "unknown": str(unknown)}
            _c10d_logger.debug("%s", known | {"error": str(error), "args": f"{args}, {kwargs}"})
            raise

    return logged


def _time_logger(func):
    """A function whose time in nanoseconds is logged."""
    @functools.wraps(func)
    def logged(*args, **kwargs):
        begin = time.monotonic_ns()
        result = func(*args, **kwargs)
        _c10d_logger.debug("%s", _get_msg_dict(func.__name__, *args, **kwargs)
                           | {"time_spent": f"{time.monotonic_ns() - begin}ns"})
        return result

    return logged
