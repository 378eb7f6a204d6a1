"""A function call under capture: its variables and its value stack."""
from __future__ import annotations

from .bytecode import NULL_FIRST, listing
from .values import NULL


class Frame:
    """A function call under capture.  ``discard``: its result is dropped; ``generator``: the generator whose body it
    is."""

    __slots__ = ("code", "listing", "namespace", "locals", "cells", "stack", "at", "discard", "now", "generator",
                 "resume")

    def __init__(self, code, namespace):
        self.code, self.listing, self.namespace = code, listing(code), namespace
        self.locals, self.cells, self.stack = {}, {}, []
        self.at, self.discard, self.now = 0, False, None
        self.generator = self.resume = None

    def give(self, value):
        """Push a result, unless a pushed frame will return it."""
        if value is not None:
            self.stack.append(value)

    def take(self, count) -> list:
        """Pop and return the topmost values, in order."""
        if not count:
            return []
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def callee(self, count):
        """Pop the function and the arguments of a call with ``count`` arguments on the stack."""
        arguments = self.take(count)
        second, first = self.stack.pop(), self.stack.pop()
        if NULL_FIRST:
            return (second, arguments) if first is NULL else (first, [second, *arguments])
        return (first, arguments) if second is NULL else (first, [second, *arguments])

    def star_call(self, kind):
        """Pop the function, its positional arguments and its keywords (or None) of a call with ``*`` and ``**``."""
        keywords = None
        if kind == "null":
            keywords = self.stack.pop()
            keywords = None if keywords is NULL else keywords
        elif kind:
            keywords = self.stack.pop()
        positional = self.stack.pop()
        function, _ = self.callee(0)
        return function, positional, keywords


def split(arguments, names):
    """Return (positional arguments, keyword arguments) of a call whose last arguments have these names."""
    at = len(arguments) - len(names)
    return arguments[:at], dict(zip(names, arguments[at:]))
