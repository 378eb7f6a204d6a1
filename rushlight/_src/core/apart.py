"""Calls that no signal handler may interrupt: another thread makes them, and the main thread, which alone runs such
handlers, waits.

LLVM's bindings hold a lock while they work.  An exception of a handler that comes just then would leave it locked for
ever.
"""
import sys
import threading
from _imp import lock_held
from _thread import allocate_lock, start_new_thread

# seconds after which a waiter looks again: an exception may take the signal from the one that it was meant for
PATIENCE = 1.0


class Completion:
    """``wait`` returns after ``set``.  Both are safe where an exception may come between any two steps, as
    ``threading.Event`` is not."""

    def __init__(self):
        self.done, self.lock = False, allocate_lock()
        self.lock.acquire()

    def set(self):
        """Called once."""
        self.done = True
        self.lock.release()

    def wait(self):
        while not self.done:
            if self.lock.acquire(timeout=PATIENCE):
                self.lock.release()


class ThreadCall:
    """A call that another thread makes: its result, or its error."""

    def __init__(self, function, given):
        self.function, self.given, self.completion = function, given, Completion()
        self.result = self.error = None

    def run(self):
        try:
            self.result = self.function(*self.given)
        except BaseException as error:  # the caller raises it
            self.error = error
        self.completion.set()


def begin(function):
    """Runs a function on a new thread.  In one step: an exception that comes while ``threading.Thread.start`` waits
    makes it fail where it cleans up."""
    start_new_thread(function, ())


def apart(function, *given):
    """Call a function in a thread in which no signal handler runs and return its result: if the caller is the main
    thread, it waits for another one.

    Runs directly while a module is being imported: Python then lets no other thread import anything, and the other
    thread might have to. Also while Python ends: then no other thread runs any more.
    """
    if threading.current_thread() is not threading.main_thread() or lock_held() or sys.is_finalizing():
        return function(*given)
    call = ThreadCall(function, given)
    begin(call.run)
    call.completion.wait()
    if call.error is not None:
        raise call.error
    return call.result
