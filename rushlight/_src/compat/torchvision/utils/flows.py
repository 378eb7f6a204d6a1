"""Optical flow as colors (Baker et al. 2007, A database and evaluation methodology for optical flow)."""
from __future__ import annotations

import math

import rushlight as torch

# channel that is full, channel that rises or falls, colours
ARCS = ((0, 1, 1, 15), (1, 0, -1, 6), (1, 2, 1, 4), (2, 1, -1, 11), (2, 0, 1, 13), (0, 2, -1, 6))


def wheel():
    """The color wheel: [55, 3], from 0 to 255."""
    rows = []
    for full, moving, way, count in ARCS:
        for step in range(count):
            row, part = [0, 0, 0], math.floor(255 * step / count)
            row[full], row[moving] = 255, part if way > 0 else 255 - part
            rows.append(row)
    return torch.tensor(rows, dtype=torch.float32)


@torch.no_grad()
def flow_to_image(flow):
    """Convert flows, float32 [2, h, w] or [n, 2, h, w] (columns, then rows), to uint8 [3, h, w] or [n, 3, h, w]: the
    direction is the color; the length, relative to the longest, is the distance from white.  ValueError for other
    dtypes and shapes.

    >>> import rushlight as torch
    >>> flow_to_image(torch.zeros(2, 1, 1)).flatten().tolist()
    [255, 255, 255]
    """
    if flow.dtype != torch.float:
        raise ValueError(f"Flow should be of dtype torch.float, got {flow.dtype}.")
    batch = flow[None] if flow.dim() == 3 else flow
    if batch.dim() != 4 or batch.shape[1] != 2:
        raise ValueError(f"Input flow should have shape (2, H, W) or (N, 2, H, W), got {flow.shape}.")
    longest = batch.pow(2).sum(1).sqrt().max()
    batch = batch / (longest + torch.finfo(flow.dtype).eps)
    length = batch.pow(2).sum(1).sqrt()
    colours = wheel() / 255
    place = (torch.atan2(-batch[:, 1], -batch[:, 0]) / math.pi + 1) / 2 * (len(colours) - 1)
    low = place.floor().long()
    part = (place - low)[..., None]
    mixed = (1 - part) * colours[low] + part * colours[(low + 1) % len(colours)]
    image = (255 * (1 - length[..., None] * (1 - mixed))).floor().to(torch.uint8).permute(0, 3, 1, 2).contiguous()
    return image[0] if flow.dim() == 3 else image
