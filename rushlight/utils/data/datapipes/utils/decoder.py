"""Functions from the ending of a file's name and its content to what the content means."""
from __future__ import annotations

import io
import json
import os.path

import numpy as np

from ....._src.plain_pickles import load_plain
from .common import StreamWrapper


def _plain(data):
    return data.decode()


# endings -> what makes a value of the content
READERS = {("txt", "text", "transcript"): _plain, ("cls", "cls2", "class", "count", "index", "inx", "id"):
           lambda data: int(data), ("json", "jsn"): lambda data: json.loads(data),
           ("pyd", "pickle"): lambda data: load_plain(data), ("pt",): lambda data: _tensors(data)}


def _tensors(data):
    from .....serialization import load
    return load(io.BytesIO(data))


def basichandlers(extension, data):
    """The value of a text, a number, a JSON text, a pickle or a file of tensors, by the ending; None for others.

    Pickles hold plain values and NumPy arrays; a handler of the program's own may read others that it trusts.

    >>> basichandlers("json", b"[1, 2]"), basichandlers("cls", b"7"), basichandlers("xyz", b"")
    ([1, 2], 7, None)
    """
    for endings, reader in READERS.items():
        if extension in endings:
            return reader(data)
    return None


def handle_extension(extensions, f):
    """A handler of files with one of several endings, words with spaces between; the longest ending counts."""
    wanted = extensions.lower().split()

    def handle(key, data):
        parts = key.lower().split(".")
        for ending in wanted:
            pieces = ending.split(".")
            if len(pieces) <= len(parts) and parts[-len(pieces):] == pieces:
                return f(data)
        return None

    return handle


# name -> (of what type, floats or bytes, mode of the picture)
imagespecs = {f"{lead}{mode}{suffix}": (kind, element, mode)
              for lead, kind in (("", "numpy"), ("torch", "torch")) for mode in ("l", "rgb", "rgba")
              for suffix, element in (("8", "uint8"), ("", "float"))}
imagespecs.update({"torch": ("torch", "float", "rgb"), "pil": ("pil", None, "rgb"),
                   **{f"pil{mode}": ("pil", None, mode) for mode in ("l", "rgb", "rgba")}})


class ImageHandler:
    """Pictures as what a name of ``imagespecs`` says: ``"rgb8"`` is an array of bytes, ``"torchrgb"`` a tensor of
    channels, rows and columns between 0 and 1, ``"pil"`` a picture of PIL.  AssertionError for another name."""

    def __init__(self, imagespec):
        if imagespec not in imagespecs:
            raise AssertionError(f"unknown image specification: {imagespec}")
        self.imagespec = imagespec.lower()

    def __call__(self, extension, data):
        if extension.lower() not in ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm"):
            return None
        try:
            import PIL.Image
        except ImportError as error:
            raise ModuleNotFoundError("Package `PIL` is required to be installed for default image decoder. Please "
                                      "use `pip install Pillow` to install the package") from error
        kind, element, mode = imagespecs[self.imagespec]
        with io.BytesIO(data) as stream:
            picture = PIL.Image.open(stream)
            picture.load()
        picture = picture.convert(mode.upper())
        if kind == "pil":
            return picture
        values = np.asarray(picture)
        if element == "float":
            values = values.astype("f") / 255.0
        if kind == "numpy":
            return values
        from ....._src.core.exchange import from_numpy
        values = values.transpose(2, 0, 1) if values.ndim == 3 else values[None]
        return from_numpy(np.array(values))


def imagehandler(imagespec):
    """A handler of pictures."""
    return ImageHandler(imagespec)


def videohandler(extension, data):
    """Films, by torchvision."""
    if extension not in ("mp4", "ogv", "mjpeg", "avi", "mov", "h264", "mpg", "webm", "wmv"):
        return None
    import tempfile

    from torchvision.io import read_video
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"file.{extension}")
        with open(path, "wb") as file:
            file.write(data)
        return read_video(path)


def audiohandler(extension, data):
    """Sounds, by torchaudio."""
    if extension not in ("flac", "mp3", "sox", "wav", "m4a", "ogg", "wma"):
        return None
    import tempfile

    import torchaudio
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"file.{extension}")
        with open(path, "wb") as file:
            file.write(data)
        return torchaudio.load(path)


def extension_extract_fn(pathname):
    """The ending of a path, without its dot.

    >>> extension_extract_fn("a/b.tar.gz")
    'gz'
    """
    return os.path.splitext(pathname)[1].removeprefix(".")


class Decoder:
    """Decodes (path, stream) by handlers; the last added is tried first."""

    def __init__(self, *handler, key_fn=extension_extract_fn):
        self.handlers, self.key_fn = list(handler), key_fn

    def add_handler(self, *handler):
        self.handlers += handler

    def decode1(self, key, data):
        """The value of one content: of the first handler that knows the ending, else the content."""
        if not data:
            return data
        for handler in reversed(self.handlers):
            found = handler(key, data)
            if found is not None:
                return found
        return data

    def decode(self, data):
        """Decode (path, stream) to a dict of one entry; the stream is read and closed."""
        result = {}
        for path, content in data if isinstance(data, list) else [data] if isinstance(data, tuple) else data.items():
            if hasattr(content, "read"):
                stream, content = content, content.read()
                StreamWrapper.close_streams(stream)
            result[path] = self.decode1(self.key_fn(path), content)
        return result

    def __call__(self, data):
        return self.decode(data)
