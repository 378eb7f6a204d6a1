"""Several pipes as one."""
from ..datapipe import MapDataPipe, functional_datapipe

__all__ = ["ConcaterMapDataPipe", "ZipperMapDataPipe"]


def _checked(datapipes):
    if not datapipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(pipe, MapDataPipe) for pipe in datapipes):
        raise TypeError("Expected all inputs to be `MapDataPipe`")
    return datapipes


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe):
    """The items of pipes, one pipe after another, by their numbers."""

    def __init__(self, *datapipes):
        self.datapipes = _checked(datapipes)

    def __getitem__(self, index):
        offset = 0
        for pipe in self.datapipes:
            if index - offset < len(pipe):
                return pipe[index - offset]
            offset += len(pipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self):
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe):
    """Tuples of an item of each pipe."""

    def __init__(self, *datapipes):
        self.datapipes = _checked(datapipes)

    def __getitem__(self, index):
        return tuple(pipe[index] for pipe in self.datapipes)

    def __len__(self):
        return min(map(len, self.datapipes))
