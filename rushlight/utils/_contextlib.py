"""Context managers that decorate functions."""
from __future__ import annotations

import inspect

from .._src.core.decorating import DecoratingContext as _DecoratorContextManager
from .._src.core.decorating import decorate


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One whose class decorates a function without being called first."""

    def __new__(cls, orig_func=None):
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)


def context_decorator(ctx, func):
    """A function that runs in a context at each call: ``ctx`` makes one, or is one that may be entered again.
    AssertionError where it is both, RuntimeError where ``func`` is a class."""
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(f"ctx must be either a context manager or a function that makes one, but {ctx!r} is both")
    if inspect.isclass(func):
        raise RuntimeError(f"only functions and generator functions are decorated, but got the class {func.__name__}")
    return decorate(ctx if callable(ctx) else lambda: ctx, func)
