"""Markers of functions whose result comes later."""
from __future__ import annotations


def async_execution(fn):
    """Marks a function that returns a Future, whose value is the answer of a call."""
    (fn.__func__ if isinstance(fn, (staticmethod, classmethod)) else fn).answers_later = True
    return fn
