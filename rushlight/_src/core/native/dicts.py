"""Detect changes of dicts: for each dict an integer in memory that differs after every change.

Until CPython 3.11 this is the dict's version. Later ones notify a watcher of every change of the dicts that it watches;
Rushlight's, in machine code, counts them.
"""
from __future__ import annotations

import ctypes
import sys

VERSION = 24  # bytes from the start of a dict to its version
_python = ctypes.pythonapi


class Watcher:
    """The watcher of dicts, once there is machine code for it: its number, and the address of its count."""

    number, count = -1, 0


def attach_watcher(function: int, count: int) -> None:
    """Tell the address of ``i32 watch(i32 event, ptr dict, ptr key, ptr value)`` and that of the word it raises; the
    first one given stays."""
    if Watcher.count or not hasattr(_python, "PyDict_AddWatcher"):
        return
    _python.PyDict_AddWatcher.argtypes = (ctypes.c_void_p,)
    _python.PyDict_Watch.argtypes = (ctypes.c_int, ctypes.py_object)
    try:
        Watcher.number = _python.PyDict_AddWatcher(function)
    except RuntimeError:  # others have all watchers of this interpreter: no dict has a word
        return
    Watcher.count = count


def has_versions() -> bool:
    """True if the version of a dict is where it is expected, and each kind of change gives it another."""
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 12) or sys.maxsize != 2**63 - 1:
        return False
    table: dict = {}
    word = ctypes.c_uint64.from_address(id(table) + VERSION)
    seen = {word.value}
    for change in (lambda: table.update(a=1), lambda: table.update(a=2), lambda: table.pop("a"),
                   lambda: table.setdefault("b", 1), table.clear):
        change()
        seen.add(word.value)
    return len(seen) == 6


VERSIONED = has_versions()


def word_of(table: dict) -> int:
    """The address of a word that differs after every change of a dict, valid as long as the dict lives; 0 where
    there is none."""
    if VERSIONED:
        return id(table) + VERSION
    if Watcher.count:
        _python.PyDict_Watch(Watcher.number, table)
    return Watcher.count
