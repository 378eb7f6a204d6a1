"""Waits for conditions.  The limits only bound a hang: how long anything takes depends on the load of the machine."""
import time


def wait_for(condition, seconds: float = 60.0, pause: float = 0.01):
    """Call ``condition`` until it returns a true value, and return that; raise AssertionError after ``seconds``."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{getattr(condition, '__qualname__', condition)} is {found!r} after {seconds:g} s")
        time.sleep(pause)
    return found
