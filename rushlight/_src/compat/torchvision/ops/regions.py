"""Features of image regions.  Regions are [n, 5], the image's index first, or a list of [k, 4], one for each image."""
from __future__ import annotations

import rushlight as torch
from rushlight import nn

__all__ = ["PSRoIAlign", "PSRoIPool", "RoIAlign", "RoIPool", "ps_roi_align", "ps_roi_pool", "roi_align", "roi_pool"]


def with_batch(boxes):
    """Boxes of each image as one tensor [n, 5], the image's index first.  ValueError for other shapes."""
    if isinstance(boxes, torch.Tensor):
        if boxes.dim() != 2 or boxes.shape[1] != 5:
            raise ValueError(f"The boxes tensor shape is not correct as Tensor[K, 5]: {tuple(boxes.shape)}")
        return boxes
    if any(b.dim() != 2 or b.shape[1] != 4 for b in boxes):
        raise ValueError("The shape of the tensor in the boxes list is not correct as List[Tensor[L, 4]]")
    return torch.cat([torch.cat([torch.full((len(b), 1), float(k), dtype=b.dtype), b], 1) for k, b in enumerate(boxes)])


def pair(size):
    return (size, size) if isinstance(size, int) else tuple(size)


class Regions:
    """Regions on a grid of cells: left, top, width and height of each [n], in elements of the input."""

    def __init__(self, rois, scale, offset, least):
        corners = rois[:, 1:] * scale - offset
        self.left, self.top, right, bottom = corners.unbind(1)
        self.images, self.wide, self.high = rois[:, 0].long(), right - self.left, bottom - self.top
        if least is not None:
            self.wide, self.high = self.wide.clamp(min=least), self.high.clamp(min=least)

    def counts(self, cells, ratio):
        """Number of samples in a cell, down and across: ``ratio``, or one for each element it covers: ints [n, 2]."""
        if ratio > 0:
            return torch.full((len(self.images), 2), ratio, dtype=torch.int64)
        sizes = torch.stack([self.high / cells[0], self.wide / cells[1]], 1).detach()
        return sizes.ceil().long().clamp(min=0)

    def samples(self, at, cells, count):
        """Positions of samples of the regions ``at``: y [n, cells * count] and x, ``count`` evenly spread over each
        cell."""
        found = []
        for start, length, n, k in ((self.top, self.high, cells[0], count[0]),
                                    (self.left, self.wide, cells[1], count[1])):
            steps = (torch.arange(n * k, dtype=start.dtype) + 0.5) / max(k, 1)
            found.append(start[at][:, None] + steps * (length[at] / n)[:, None])
        return found


def axis(places, size):
    """Two elements around each position, the share of the second, and a mask of the positions on the image."""
    inside = (places >= -1) & (places <= size)
    places = places.clamp(min=0)
    low = places.detach().floor().long().clamp(max=size - 1)
    high = (low + 1).clamp(max=size - 1)
    places = torch.where(low >= size - 1, low.to(places.dtype), places)
    return low, high, places - low, inside


def sampled(input, images, y, x, channels=None):
    """Bilinear samples at every y and x of each region, 0 outside: [n, rows, columns, c]; of all channels, or of those
    in ``channels`` [rows, columns, c]."""
    y0, y1, fy, in_y = axis(y, input.shape[2])
    x0, x1, fx, in_x = axis(x, input.shape[3])

    def at(rows, columns):
        rows, columns = rows[:, :, None], columns[:, None, :]
        if channels is None:
            return input[images[:, None, None], :, rows, columns]
        return input[images[:, None, None, None], channels, rows[..., None], columns[..., None]]

    fy, fx = fy[:, :, None, None], fx[:, None, :, None]
    sample = at(y0, x0) * (1 - fy) * (1 - fx) + at(y0, x1) * (1 - fy) * fx + at(y1, x0) * fy * (1 - fx) + at(
        y1, x1) * fy * fx
    return sample * (in_y[:, :, None] & in_x[:, None, :]).unsqueeze(-1)


def aligned_means(input, regions, cells, ratio, channels=None):
    """Means of samples over cells: [n, c, *cells].  Regions with equal sample counts are computed together."""
    counts = regions.counts(cells, ratio)
    order, found = [], []
    for count in sorted(set(map(tuple, counts.tolist()))):
        at = ((counts[:, 0] == count[0]) & (counts[:, 1] == count[1])).nonzero().squeeze(1)
        y, x = regions.samples(at, cells, count)
        spread = None if channels is None else channels.repeat_interleave(count[0], 0).repeat_interleave(count[1], 1)
        sample = sampled(input, regions.images[at], y, x, spread).reshape(len(at), cells[0], count[0], cells[1],
                                                                          count[1], -1)
        found.append((sample.mean((2, 4)) if min(count) else sample.sum((2, 4))).permute(0, 3, 1, 2))
        order.append(at)
    if not found:
        return input.new_zeros((0, input.shape[1] if channels is None else channels.shape[2], *cells))
    whole = torch.cat(found)
    return whole[torch.cat(order).argsort()] if len(found) > 1 else whole


def roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False):
    """Means of bilinear samples over the cells of regions: [n, c, h, w] -> [regions, c, *output_size] (He et al. 2017).

    ``sampling_ratio``: samples along each side of a cell; if not positive, one for each element that it covers.
    """
    regions = Regions(with_batch(boxes), spatial_scale, 0.5 if aligned else 0.0, None if aligned else 1.0)
    return aligned_means(input, regions, pair(output_size), sampling_ratio)


def position_channels(input, cells):
    """Channels of each cell, if every cell has its own: [rows, columns, c].  ValueError if the cells do not divide
    them."""
    count, rest = divmod(input.shape[1], cells[0] * cells[1])
    if rest:
        raise ValueError(
            f"input channels must be a multiple of the cells {cells[0]} * {cells[1]}, got {input.shape[1]}")
    return torch.arange(input.shape[1]).reshape(count, *cells).permute(1, 2, 0)


def ps_roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1):
    """``roi_align`` with separate channels for each cell: [n, c * cells, h, w] -> [regions, c, *output_size]."""
    cells = pair(output_size)
    regions = Regions(with_batch(boxes), spatial_scale, 0.5, None)
    return aligned_means(input, regions, cells, sampling_ratio, position_channels(input, cells))


def bounds(start, length, cells, size):
    """First and one past the last element of each cell of each region: ints [n, cells] both, within the image."""
    steps = torch.arange(cells, dtype=start.dtype)
    side = (length / cells)[:, None]
    low, high = (steps * side).floor() + start[:, None], ((steps + 1) * side).ceil() + start[:, None]
    return low.clamp(0, size).long(), high.clamp(0, size).long()


def masks(low, high, size):
    """Mask of the elements of an axis that belong to each cell: bool [n, cells, size]."""
    at = torch.arange(size)
    return (at >= low[..., None]) & (at < high[..., None])


def roi_pool(input, boxes, output_size, spatial_scale=1.0):
    """The largest element in each cell of regions, 0 in empty ones (Girshick 2015)."""
    return pooled(input, with_batch(boxes), pair(output_size), spatial_scale)[0]


def pooled(input, rois, cells, scale):
    """Largest elements, and their indices in the channel, -1 in empty cells."""
    corners = (rois[:, 1:].detach() * scale)
    corners = (corners.abs() + 0.5).floor() * corners.sign()  # ties round away from zero
    left, top, right, bottom = corners.unbind(1)
    height, width = input.shape[2:]
    rows = masks(*bounds(top, (bottom - top + 1).clamp(min=1), cells[0], height), height)
    columns = masks(*bounds(left, (right - left + 1).clamp(min=1), cells[1], width), width)
    low = -torch.inf if input.dtype.is_floating_point else torch.iinfo(input.dtype).min
    found, places = [], []
    for k, image in enumerate(rois[:, 0].long().tolist()):
        mask = rows[k][:, None, :, None] & columns[k][None, :, None, :]  # [rows, columns, h, w]
        flat = torch.where(mask, input[image][:, None, None], low).flatten(3)
        value, place = flat.max(3)
        empty = ~mask.flatten(2).any(2)
        found.append(torch.where(empty, 0, value))
        places.append(torch.where(empty, -1, place))
    if not found:
        empty = input.new_zeros((0, input.shape[1], *cells))
        return empty, empty.int()
    return torch.stack(found), torch.stack(places).int()


def ps_roi_pool(input, boxes, output_size, spatial_scale=1.0):
    """Mean of each cell of regions, with separate channels for each cell, 0 in empty ones (Dai et al. 2016)."""
    cells, rois = pair(output_size), with_batch(boxes)
    corners = rois[:, 1:].detach()
    corners = (corners.abs() + 0.5).floor() * corners.sign()
    left, top = corners[:, 0] * spatial_scale, corners[:, 1] * spatial_scale
    wide, high = ((corners[:, k + 2] + 1) * spatial_scale - (left, top)[k] for k in (0, 1))
    height, width = input.shape[2:]

    def members(start, length, count, size):
        side = (length.clamp(min=0.1) / count)[:, None]
        steps = torch.arange(count, dtype=start.dtype)
        low, past = (steps * side + start[:, None]).floor(), ((steps + 1) * side + start[:, None]).ceil()
        return masks(low.clamp(0, size).long(), past.clamp(0, size).long(), size).to(input.dtype)

    rows, columns = members(top, high, cells[0], height), members(left, wide, cells[1], width)
    position_channels(input, cells)
    own = input[rois[:, 0].long()].reshape(len(rois), -1, *cells, height, width)
    total = torch.einsum("ncijhw,nih,njw->ncij", own, rows, columns)
    area = rows.sum(2)[:, :, None] * columns.sum(2)[:, None, :]
    return total / area.clamp(min=1)[:, None]


def layer(name, function, *options):
    """Return a module class that stores the options of a function, and passes them on."""
    class Layer(nn.Module):
        def __init__(self, *args, **kwargs):
            super().__init__()
            given = dict(zip(options, args)) | kwargs
            missing = [o for o in options if o not in given and o != "aligned"]
            if missing or set(given) - set(options):
                raise TypeError(f"{name}() takes {', '.join(options)}; got {', '.join(given)}")
            for option in given:
                setattr(self, option, given[option])
            self.options = given

        def forward(self, input, rois):
            return function(input, rois, **self.options)

        def extra_repr(self):
            return ", ".join(f"{k}={v}" for k, v in self.options.items())

    Layer.__name__ = Layer.__qualname__ = name
    Layer.__doc__ = f"``{function.__name__}`` as a module: {', '.join(options)}."
    Layer.__module__ = __name__
    return Layer


RoIAlign = layer("RoIAlign", roi_align, "output_size", "spatial_scale", "sampling_ratio", "aligned")
RoIPool = layer("RoIPool", roi_pool, "output_size", "spatial_scale")
PSRoIAlign = layer("PSRoIAlign", ps_roi_align, "output_size", "spatial_scale", "sampling_ratio")
PSRoIPool = layer("PSRoIPool", ps_roi_pool, "output_size", "spatial_scale")
