"""Functions of the items of another pipe."""
from ..datapipe import MapDataPipe, functional_datapipe

__all__ = ["MapperMapDataPipe", "default_fn"]


def default_fn(data):
    """The item itself."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe):
    """A function of each item of another pipe."""

    def __init__(self, datapipe, fn=default_fn):
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index):
        return self.fn(self.datapipe[index])

    def __len__(self):
        return len(self.datapipe)
