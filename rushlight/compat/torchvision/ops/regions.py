"""Features of regions of images."""
from __future__ import annotations

import rushlight as torch
from rushlight import nn

__all__ = ["RoIAlign", "RoIPool", "roi_align", "roi_pool"]


def with_batch(boxes):
    """Boxes of each image as one tensor [n, 5], the image's index first."""
    if isinstance(boxes, torch.Tensor):
        return boxes
    return torch.cat([torch.cat([torch.full((len(b), 1), float(k), dtype=b.dtype), b], 1) for k, b in enumerate(boxes)])


def roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False):
    """Means of bilinear samples over the cells of regions: [n, c, h, w] and boxes -> [count, c, *output_size] (He et al. 2017).

    NotImplementedError unless ``sampling_ratio`` is positive: otherwise the number of samples would vary from box to box.
    """
    if sampling_ratio <= 0:
        raise NotImplementedError("roi_align needs sampling_ratio > 0 here: with -1 the number of samples depends on each box")
    rois = with_batch(boxes)
    high, wide = (output_size, output_size) if isinstance(output_size, int) else output_size
    height, width = input.shape[-2:]
    offset = 0.5 if aligned else 0.0
    left, top, right, bottom = (rois[:, 1:] * spatial_scale - offset).unbind(1)
    w, h = right - left, bottom - top
    if not aligned:
        w, h = w.clamp(min=1.0), h.clamp(min=1.0)
    count = sampling_ratio

    def positions(start, length, cells):
        steps = (torch.arange(cells * count, dtype=input.dtype) + 0.5) / count
        return start[:, None] + steps * (length / cells)[:, None]

    y, x = positions(top, h, high), positions(left, w, wide)
    images = rois[:, 0].long()

    def axis(p, size):
        inside = (p >= -1) & (p <= size)
        p = p.clamp(min=0)
        low = p.floor().long().clamp(max=size - 1)
        upper = (low + 1).clamp(max=size - 1)
        p = torch.where(low >= size - 1, low.to(p.dtype), p)
        return low, upper, p - low, inside

    y0, y1, fy, in_y = axis(y, height)
    x0, x1, fx, in_x = axis(x, width)

    def at(rows, columns):
        return input[images[:, None, None], :, rows[:, :, None], columns[:, None, :]]

    fy, fx = fy[:, :, None, None], fx[:, None, :, None]
    sample = (at(y0, x0) * (1 - fy) * (1 - fx) + at(y0, x1) * (1 - fy) * fx + at(y1, x0) * fy * (1 - fx) + at(y1, x1) * fy * fx)
    sample = sample * (in_y[:, :, None] & in_x[:, None, :]).unsqueeze(-1)
    return sample.reshape(len(rois), high, count, wide, count, -1).mean((2, 4)).permute(0, 3, 1, 2)


def roi_pool(input, boxes, output_size, spatial_scale=1.0):
    """The largest value in each cell of regions (Girshick 2015)."""
    rois = with_batch(boxes)
    found = []
    for roi in rois.detach():
        image = int(roi[0])
        left, top, right, bottom = (roi[1:] * spatial_scale).round().long().tolist()
        part = input[image:image + 1, :, top:max(bottom, top) + 1, left:max(right, left) + 1]
        found.append(nn.functional.adaptive_max_pool2d(part, output_size))
    return torch.cat(found)


class RoIAlign(nn.Module):
    """``roi_align`` as a module."""

    def __init__(self, output_size, spatial_scale, sampling_ratio, aligned=False):
        super().__init__()
        self.options = output_size, spatial_scale, sampling_ratio, aligned

    def forward(self, input, rois):
        return roi_align(input, rois, *self.options)


class RoIPool(nn.Module):
    """``roi_pool`` as a module."""

    def __init__(self, output_size, spatial_scale):
        super().__init__()
        self.options = output_size, spatial_scale

    def forward(self, input, rois):
        return roi_pool(input, rois, *self.options)
