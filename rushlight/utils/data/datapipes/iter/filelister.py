"""Paths of files."""
from ..datapipe import IterDataPipe, functional_datapipe
from ..utils.common import get_file_pathnames_from_root
from .utils import IterableWrapperIterDataPipe

__all__ = ["FileListerIterDataPipe"]


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe):
    """Yields the paths of files in directories, by patterns of their names."""

    def __init__(self, root=".", masks="", *, recursive=False, abspath=False, non_deterministic=False, length=-1):
        self.datapipe = IterableWrapperIterDataPipe([root]) if isinstance(root, str) else (
            root if isinstance(root, IterDataPipe) else IterableWrapperIterDataPipe(root))
        self.masks, self.recursive, self.abspath = masks, recursive, abspath
        self.non_deterministic, self.length = non_deterministic, length

    def __iter__(self):
        for folder in self.datapipe:
            yield from get_file_pathnames_from_root(folder, self.masks, self.recursive, self.abspath,
                                                    self.non_deterministic)

    def __len__(self):
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length
