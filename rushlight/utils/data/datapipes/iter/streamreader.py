"""Contents of streams."""
from ..datapipe import IterDataPipe, functional_datapipe

__all__ = ["StreamReaderIterDataPipe"]


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe):
    """(path, content) for each (path, stream), in pieces of ``chunk`` bytes where that is given."""

    def __init__(self, datapipe, chunk=None):
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self):
        for path, stream in self.datapipe:
            while True:
                content = stream.read(self.chunk) if self.chunk is not None else stream.read()
                if not content:
                    stream.close()
                    break
                yield path, content
