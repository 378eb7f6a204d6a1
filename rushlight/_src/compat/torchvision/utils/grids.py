"""Grids of images, and image files."""
from __future__ import annotations

import math

import rushlight as torch


def scaled(images, value_range, scale_each):
    """Scale values of [n, c, h, w] from ``value_range``, or from their minimum to their maximum, to [0, 1]; for each
    image separately, or for all."""
    def stretched(part):
        low, high = value_range or (float(part.min()), float(part.max()))
        return (part.clamp(low, high) - low) / max(high - low, 1e-5)

    return torch.stack([stretched(image) for image in images]) if scale_each else stretched(images)


def batch_of(tensor):
    """Convert [h, w], [c, h, w], [n, c, h, w] or a list of images to [n, c, h, w]; one channel becomes three."""
    for image in tensor if isinstance(tensor, list) else [tensor]:
        if not isinstance(image, torch.Tensor):
            where = ", got a list containing" if isinstance(tensor, list) else ", got"
            raise TypeError(f"tensor or list of tensors expected{where} {type(image)}")
    images = torch.stack(tensor) if isinstance(tensor, list) else tensor
    images = images[None] if images.dim() == 2 else images
    images = images[None] if images.dim() == 3 else images
    return images.repeat(1, 3, 1, 1) if images.dim() == 4 and images.shape[1] == 1 else images


@torch.no_grad()
def make_grid(tensor, nrow=8, padding=2, normalize=False, value_range=None, scale_each=False, pad_value=0.0):
    """Arrange images [n, c, h, w] in a grid, ``nrow`` in a row, with ``padding`` elements of ``pad_value`` around each:
    [c, height, width].

    A single image is returned unchanged.  TypeError for other objects than tensors, or unless ``value_range`` is a
    tuple.

    >>> import rushlight as torch
    >>> make_grid(torch.ones(5, 3, 4, 4), nrow=3).shape
    torch.Size([3, 14, 20])
    """
    images = batch_of(tensor)
    if normalize:
        if value_range is not None and not isinstance(value_range, tuple):
            raise TypeError("value_range has to be a tuple (min, max) if specified. min and max are numbers")
        images = scaled(images, value_range, scale_each)
    count, channels, height, width = images.shape
    if count == 1:
        return images[0]
    columns = min(nrow, count)
    down, across = height + padding, width + padding
    grid = images.new_full((channels, math.ceil(count / columns) * down + padding, columns * across + padding),
                           pad_value)
    for k, image in enumerate(images):
        top, left = k // columns * down + padding, k % columns * across + padding
        grid[:, top:top + height, left:left + width] = image
    return grid


@torch.no_grad()
def save_image(tensor, fp, format=None, **kwargs):
    """Write images with values from 0 to 1 as one image file; keyword arguments are those of ``make_grid``."""
    from PIL import Image

    grid = make_grid(tensor, **kwargs).mul(255).add(0.5).clamp(0, 255)
    Image.fromarray(grid.permute(1, 2, 0).to(torch.uint8).contiguous().numpy()).save(fp, format=format)
