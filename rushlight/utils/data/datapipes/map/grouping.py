"""Items together."""
from ..datapipe import DataChunk, MapDataPipe, functional_datapipe

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe):
    """Lists of ``batch_size`` items that follow each other."""

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=DataChunk):
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(f"Index {index} is out of bound.")
        first = index * self.batch_size
        return self.wrapper_class(self.datapipe[k] for k in range(first, min(first + self.batch_size,
                                                                             len(self.datapipe))))

    def __len__(self):
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
