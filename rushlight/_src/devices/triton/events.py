"""Events of a stream."""

from __future__ import annotations

import os


class Mark:
    """An event, destroyed with its last reference."""

    def __init__(self, board, stream: int):
        self.driver, self.index, self.process = board.driver, board.index, os.getpid()
        with self.driver.at(board.index):  # a release may happen amid work for another device
            self.handle = self.driver.made("event", 0)
            self.driver.call("event_mark", self.handle, stream)

    def passed(self) -> bool:
        """True if the work before it is done; any thread may query."""
        with self.driver.at(self.index):
            return self.driver.done("event_done", self.handle)

    def reach(self):
        """Returns when the work before it is done; any thread may wait."""
        with self.driver.at(self.index):
            self.driver.call("event_wait", self.handle)

    def __del__(self):
        if self.process == os.getpid() and hasattr(self, "handle"):
            with self.driver.at(self.index):  # any thread may release it
                self.driver.entries["event_free"](self.handle)
