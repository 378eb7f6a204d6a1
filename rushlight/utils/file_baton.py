"""A file that one process has at a time."""
from __future__ import annotations

import os
import time
import warnings


class FileBaton:
    """A lock that is a file: who makes it has it, until it is removed.

    ``wait_seconds``: between two looks; ``warn_after_seconds``: of waiting, after which a warning names the file.
    """

    def __init__(self, lock_file_path, wait_seconds=0.1, warn_after_seconds=None):
        self.lock_file_path, self.wait_seconds = lock_file_path, wait_seconds
        self.warn_after_seconds, self.fd = warn_after_seconds, None

    def try_acquire(self) -> bool:
        """Makes the file; False where it is there already."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self):
        """Waits until the file is gone."""
        begun, warned = time.monotonic(), False
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            late = self.warn_after_seconds is not None and time.monotonic() - begun > self.warn_after_seconds
            if late and not warned:
                warned = True
                warnings.warn(f"Waited on lock file '{self.lock_file_path}' for {self.warn_after_seconds} seconds.",
                              stacklevel=2)

    def release(self):
        """Removes the file."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        os.remove(self.lock_file_path)
