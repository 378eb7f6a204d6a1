"""Context managers that also decorate functions and generators: each call, and each step of a generator, runs in the
context."""
from __future__ import annotations

import functools
import inspect

from .advice import warn


class DecoratingContext:
    """A base of context managers; ``clone`` makes the one that a call enters, by default without arguments.

    >>> class Loud(DecoratingContext):
    ...     def __enter__(self):
    ...         print("in")
    ...     def __exit__(self, *error):
    ...         print("out")
    >>> Loud()(len)("abc")
    in
    out
    3
    """

    def clone(self):
        return type(self)()

    def __enter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __enter__")

    def __exit__(self, kind, error, trace):
        raise NotImplementedError(f"{type(self).__name__} has no __exit__")

    def __call__(self, function):
        if inspect.isclass(function):
            warn(f"Decorating classes is deprecated: it changes {function.__name__}.__init__ alone, so decorate that "
                 "method.", FutureWarning)
            function.__init__ = self(function.__init__)
            return function
        return decorate(self.clone, function)


def decorate(make_context, function):
    """A function, or generator function, that enters a context of its own at each call, or step."""
    @functools.wraps(function)
    def run(*args, **kwargs):
        with make_context():
            return function(*args, **kwargs)

    return decorate_generator(make_context, function) if inspect.isgeneratorfunction(function) else run


def decorate_generator(make_context, function):
    """A generator function whose every step runs in a new context; sent values and thrown exceptions reach it."""
    @functools.wraps(function)
    def run(*args, **kwargs):
        steps = function(*args, **kwargs)
        go = functools.partial(steps.send, None)
        while True:
            with make_context():
                try:
                    value = go()
                except StopIteration as stop:
                    return stop.value
            try:
                go = functools.partial(steps.send, (yield value))
            except GeneratorExit:
                with make_context():
                    steps.close()
                raise
            except BaseException as error:  # an exception that the caller throws is raised inside the generator
                go = functools.partial(steps.throw, error)

    return run
