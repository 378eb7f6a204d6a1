"""Read and write image files with Pillow."""
from __future__ import annotations

import enum
import io
import os

import numpy as np

import rushlight as torch

from ..absent import absent

globals().update(absent("torchvision.io", "videos are not read here",
                        "VideoReader read_video write_video read_video_timestamps"))


class ImageReadMode(enum.Enum):
    """Channels that an image is read with."""

    UNCHANGED, GRAY, GRAY_ALPHA, RGB, RGB_ALPHA = range(5)


MODES = {ImageReadMode.GRAY: "L", ImageReadMode.GRAY_ALPHA: "LA", ImageReadMode.RGB: "RGB",
         ImageReadMode.RGB_ALPHA: "RGBA"}


def read_file(path):
    """A file's bytes as a uint8 tensor [n]."""
    return torch.from_numpy(np.fromfile(os.fspath(path), np.uint8))


def write_file(filename, data):
    """Write the bytes of a uint8 tensor."""
    checked(data, 1).numpy().tofile(os.fspath(filename))


def checked(data, dims):
    """RuntimeError for anything but uint8 with ``dims`` dimensions."""
    if data.dtype is not torch.uint8 or data.dim() != dims:
        raise RuntimeError(f"expected a uint8 tensor with {dims} dimensions, got {data.dtype} with {data.dim()}")
    return data.contiguous()


def decode_image(input, mode=ImageReadMode.UNCHANGED, apply_exif_orientation=False):
    """Decode an image (a file's path, or its bytes in a uint8 tensor) to uint8 [channels, height, width]. RuntimeError
    for bytes that are not an image."""
    from PIL import Image, ImageOps, UnidentifiedImageError
    source = io.BytesIO(checked(input, 1).numpy().tobytes()) if isinstance(input, torch.Tensor) else os.fspath(input)
    mode = ImageReadMode[mode.upper()] if isinstance(mode, str) else ImageReadMode(mode)
    try:
        image = Image.open(source)
        image.load()
    except (UnidentifiedImageError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise RuntimeError(f"this is not an image that Pillow can read: {error}") from error
    image = ImageOps.exif_transpose(image) if apply_exif_orientation else image
    wanted = MODES.get(mode, "RGB" if image.mode in ("P", "CMYK", "YCbCr") else image.mode)
    array = np.array(image if image.mode == wanted else image.convert(wanted))
    array = array.astype(np.uint8) * 255 if array.dtype == bool else array
    return torch.from_numpy(array if array.ndim == 3 else array[:, :, None]).permute(2, 0, 1).contiguous()


read_image = decode_jpeg = decode_png = decode_gif = decode_webp = decode_image


def encoded(input, kind, **options):
    from PIL import Image
    array = checked(input, 3).permute(1, 2, 0).contiguous().numpy()
    if array.shape[2] not in (1, 3):
        raise RuntimeError(f"The number of channels should be 1 or 3, got: {array.shape[2]}")
    file = io.BytesIO()
    Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array).save(file, kind, **options)
    return torch.from_numpy(np.frombuffer(file.getvalue(), np.uint8).copy())


def encode_png(input, compression_level=6):
    """Encode uint8 [1 or 3, height, width] as a PNG file.  RuntimeError for other shapes, or a level outside 0 to 9."""
    if not 0 <= compression_level <= 9:
        raise RuntimeError("Compression level should be between 0 and 9")
    return encoded(input, "PNG", compress_level=compression_level)


def encode_jpeg(input, quality=75):
    """Encode uint8 [1 or 3, height, width] as a JPEG file.  ValueError for a quality outside 1 to 100."""
    if not 1 <= quality <= 100:
        raise ValueError("Image quality should be a positive number between 1 and 100")
    return encoded(input, "JPEG", quality=quality)


def write_png(input, filename, compression_level=6):
    """Write a PNG file."""
    write_file(filename, encode_png(input, compression_level))


def write_jpeg(input, filename, quality=75):
    """Write a JPEG file."""
    write_file(filename, encode_jpeg(input, quality))
