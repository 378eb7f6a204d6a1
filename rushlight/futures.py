"""Values that are set later."""
from __future__ import annotations

import concurrent.futures

from ._src.core.options import accept_only

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value that is set once, perhaps by another thread.

    >>> from rushlight.futures import Future
    >>> f = Future()
    >>> f.then(lambda g: print(g.value() + 1)) and None
    >>> f.set_result(1)
    2
    """

    def __init__(self, *, devices=None):
        accept_only("Future", "synchronize the streams of the devices before set_result()",
                    devices=(devices, None, [], ()))
        self.inner: concurrent.futures.Future = concurrent.futures.Future()

    def done(self) -> bool:
        return self.inner.done()

    def wait(self):
        """The value, once it is set; the exception where one was set."""
        return self.inner.result()

    value = wait

    def set_result(self, result):
        self.inner.set_result(result)

    def set_exception(self, result):
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self.inner.set_exception(result)

    def add_done_callback(self, callback):
        self.inner.add_done_callback(lambda _: callback(self))

    def then(self, callback):
        """A Future of ``callback(self)``."""
        after = Future()

        def run(_):
            try:
                after.set_result(callback(self))
            except Exception as error:
                after.set_exception(error)
        self.inner.add_done_callback(run)
        return after

    def __class_getitem__(cls, item):
        return cls


def collect_all(futures):
    """A Future of the list of futures, once all are done."""
    futures, made = list(futures), Future()
    left = len(futures)
    if not left:
        made.set_result(futures)

    def one_done(_):
        nonlocal left
        left -= 1
        if not left:
            made.set_result(futures)
    for future in futures:
        future.add_done_callback(one_done)
    return made


def wait_all(futures) -> list:
    """The values of futures, once all are set."""
    return [f.wait() for f in collect_all(futures).wait()]
