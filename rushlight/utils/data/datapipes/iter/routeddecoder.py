"""Contents of files as what they mean."""
from ..datapipe import IterDataPipe, functional_datapipe
from ..utils.common import validate_pathname_binary_tuple
from ..utils.decoder import Decoder, basichandlers, extension_extract_fn, imagehandler

__all__ = ["RoutedDecoderIterDataPipe"]


@functional_datapipe("routed_decode")
class RoutedDecoderIterDataPipe(IterDataPipe):
    """Converts (path, stream) to (path, value), by handlers of file name endings; default: those of strings, numbers
    and images."""

    def __init__(self, datapipe, *handlers, key_fn=extension_extract_fn):
        self.datapipe = datapipe
        self.decoder = Decoder(*(handlers or (basichandlers, imagehandler("torch"))), key_fn=key_fn)

    def add_handler(self, *handler):
        self.decoder.add_handler(*handler)

    def __iter__(self):
        for data in self.datapipe:
            validate_pathname_binary_tuple(data)
            path, stream = data
            yield path, self.decoder((path, stream))[path]

    def __len__(self):
        return len(self.datapipe)
