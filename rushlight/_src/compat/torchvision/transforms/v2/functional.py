"""The functions of transforms, and those that their second version adds."""
from __future__ import annotations

import numpy as np

import rushlight as torch

from ..functional import *  # noqa: F401,F403
from ..functional import convert_image_dtype, is_tensor, pil_to_tensor


def to_image(inpt):
    """A PIL image, an array [h, w, c] or a tensor as a tensor [c, h, w] of its own dtype."""
    if is_tensor(inpt):
        return inpt
    if isinstance(inpt, np.ndarray):
        array = inpt[:, :, None] if inpt.ndim == 2 else inpt
        return torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)))
    return pil_to_tensor(inpt)


def to_dtype(inpt, dtype=torch.float32, scale=False):
    """Convert a tensor to another dtype; with ``scale`` also to that dtype's range of values."""
    return convert_image_dtype(inpt, dtype) if scale else inpt.to(dtype)


to_dtype_image = to_dtype


def grayscale_to_rgb(inpt):
    """Three equal channels from one."""
    return inpt if inpt.shape[-3] == 3 else inpt.expand(*inpt.shape[:-3], 3, *inpt.shape[-2:])
