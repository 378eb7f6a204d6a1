"""Images from files."""
from __future__ import annotations

import enum

import rushlight as torch
from ..absent import absent

globals().update(absent("torchvision.io", "videos are not read here", "VideoReader read_video write_video read_video_timestamps"))


class ImageReadMode(enum.Enum):
    """What channels an image is read with."""

    UNCHANGED, GRAY, GRAY_ALPHA, RGB, RGB_ALPHA = range(5)


MODES = {ImageReadMode.GRAY: "L", ImageReadMode.GRAY_ALPHA: "LA", ImageReadMode.RGB: "RGB", ImageReadMode.RGB_ALPHA: "RGBA"}


def decode_image(input, mode=ImageReadMode.UNCHANGED, apply_exif_orientation=False):
    """An encoded image (a file's path, or its bytes in a uint8 tensor) as uint8 [channels, height, width]."""
    import io

    import numpy as np
    from PIL import Image
    image = Image.open(io.BytesIO(bytes(input.tolist())) if isinstance(input, torch.Tensor) else input)
    mode = ImageReadMode[mode] if isinstance(mode, str) else mode
    image = image.convert(MODES[mode]) if mode in MODES else image
    array = np.array(image)
    return torch.from_numpy(array if array.ndim == 3 else array[:, :, None]).permute(2, 0, 1).contiguous()


read_image = decode_jpeg = decode_png = decode_image


def read_file(path):
    """A file's bytes as a uint8 tensor."""
    import numpy as np
    return torch.from_numpy(np.fromfile(path, np.uint8))
