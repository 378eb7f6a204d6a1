"""The storage location of a chunk."""
from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass
class StorageInfo:
    """A range of bytes of a file in the checkpoint's directory."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: list | None = None

    def __getstate__(self):
        return {key: value for key, value in vars(self).items() if value is not None}

    def inside(self) -> bool:
        """True if it is a valid range of a file in the directory."""
        if type(self.relative_path) is not str or type(self.offset) is not int or type(
                self.length) is not int or self.offset < 0 or self.length < 0:
            return False
        return not os.path.isabs(self.relative_path) and ".." not in self.relative_path.replace("\\", "/").split(
            "/") and "\0" not in self.relative_path


@dataclass
class StoragePrefix:
    """The prefix of the names of one process's files."""

    prefix: str
