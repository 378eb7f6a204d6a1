"""Feature pyramids (Lin et al. 2017, arXiv:1612.03144): each map contains information of coarser ones, and regions are
read from the map that fits their size."""
from __future__ import annotations

import math
from collections import OrderedDict

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F
from .misc import Conv2dNormActivation
from .regions import pair, roi_align, with_batch

__all__ = ["ExtraFPNBlock", "FeaturePyramidNetwork", "LastLevelMaxPool", "LastLevelP6P7", "MultiScaleRoIAlign"]


class ExtraFPNBlock(nn.Module):
    """Further, coarser maps: ``forward(results, x, names)`` gives longer lists of results and names."""

    def forward(self, results, x, names):
        raise NotImplementedError


class LastLevelMaxPool(ExtraFPNBlock):
    """One more map: every other element of the coarsest."""

    def forward(self, x, y, names):
        return [*x, F.max_pool2d(x[-1], kernel_size=1, stride=2, padding=0)], [*names, "pool"]


class LastLevelP6P7(ExtraFPNBlock):
    """Two more maps by convolutions, of the network's coarsest result or (if the numbers of channels differ) of its
    last input."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.p6, self.p7 = nn.Conv2d(in_channels, out_channels, 3, 2, 1), nn.Conv2d(out_channels, out_channels, 3, 2, 1)
        for module in (self.p6, self.p7):
            nn.init.kaiming_uniform_(module.weight, a=1)
            nn.init.constant_(module.bias, 0)
        self.use_P5 = in_channels == out_channels

    def forward(self, p, c, names):
        p6 = self.p6(p[-1] if self.use_P5 else c[-1])
        return [*p, p6, self.p7(F.relu(p6))], [*names, "p6", "p7"]


class FeaturePyramidNetwork(nn.Module):
    """Map a dict of feature maps, finest first, of ``in_channels_list`` channels to maps of ``out_channels``, each with
    the coarser ones added.

    ValueError for an input without channels.

    >>> import rushlight as torch
    >>> network = FeaturePyramidNetwork([4, 8], 6)
    >>> [tuple(m.shape) for m in network({"a": torch.zeros(1, 4, 8, 8), "b": torch.zeros(1, 8, 4, 4)}).values()]
    [(1, 6, 8, 8), (1, 6, 4, 4)]
    """

    def __init__(self, in_channels_list, out_channels, extra_blocks=None, norm_layer=None):
        super().__init__()
        if 0 in in_channels_list:
            raise ValueError("in_channels=0 is currently not supported")
        if extra_blocks is not None and not isinstance(extra_blocks, ExtraFPNBlock):
            raise TypeError(f"extra_blocks should be of type ExtraFPNBlock not {type(extra_blocks)}")
        self.inner_blocks = nn.ModuleList(
            Conv2dNormActivation(c, out_channels, kernel_size=1, padding=0, norm_layer=norm_layer,
                                 activation_layer=None) for c in in_channels_list)
        self.layer_blocks = nn.ModuleList(
            Conv2dNormActivation(out_channels, out_channels, kernel_size=3, norm_layer=norm_layer,
                                 activation_layer=None) for _ in in_channels_list)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, a=1)
                if module.bias is not None:
                    nn.init.constant_(module.bias, 0)
        self.extra_blocks = extra_blocks

    def forward(self, x):
        names, maps = list(x), list(x.values())
        carried = self.inner_blocks[-1](maps[-1])
        results = [self.layer_blocks[-1](carried)]
        for k in reversed(range(len(maps) - 1)):
            lateral = self.inner_blocks[k](maps[k])
            carried = lateral + F.interpolate(carried, size=lateral.shape[-2:], mode="nearest")
            results.insert(0, self.layer_blocks[k](carried))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, maps, names)
        return OrderedDict(zip(names, results))


class MultiScaleRoIAlign(nn.Module):
    """``roi_align`` of each region from the map that fits its size: a box of ``canonical_scale`` elements goes to level
    ``canonical_level`` (4: a sixteenth).

    ``forward(x, boxes, image_shapes)``: maps by name, boxes [k, 4] of each image and its (height, width), as [regions,
    c, output_size...].  ValueError where none of ``featmap_names`` is in ``x``, or no image has a shape.
    """

    def __init__(self, featmap_names, output_size, sampling_ratio, *, canonical_scale=224, canonical_level=4):
        super().__init__()
        self.featmap_names, self.sampling_ratio, self.output_size = featmap_names, sampling_ratio, pair(output_size)
        self.scales = self.map_levels = None
        self.canonical_scale, self.canonical_level = canonical_scale, canonical_level

    def _scales(self, maps, image_shapes):
        if not image_shapes:
            raise ValueError("images list should not be empty")
        height = max(shape[0] for shape in image_shapes)
        return [2.0 ** round(math.log2(m.shape[-2] / height)) for m in maps]

    def _levels(self, boxes, lowest, highest):
        sides = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        level = (self.canonical_level + torch.log2(sides.sqrt() / self.canonical_scale) + 1e-6).floor()
        return level.clamp(lowest, highest).long() - lowest

    def forward(self, x, boxes, image_shapes):
        maps = [value for name, value in x.items() if name in self.featmap_names]
        if not maps:
            raise ValueError(f"none of {self.featmap_names} is among {list(x)}")
        if self.scales is None:
            self.scales = self._scales(maps, image_shapes)
        rois = with_batch(boxes)
        how = {"output_size": self.output_size, "sampling_ratio": self.sampling_ratio}
        if len(maps) == 1:
            return roi_align(maps[0], rois, spatial_scale=self.scales[0], **how)
        levels = self._levels(rois[:, 1:], int(-math.log2(self.scales[0])), int(-math.log2(self.scales[-1])))
        result = maps[0].new_zeros((len(rois), maps[0].shape[1], *self.output_size))
        for level, (found, scale) in enumerate(zip(maps, self.scales)):
            own = torch.where(levels == level)[0]
            result = result.index_put((own,), roi_align(found, rois[own], spatial_scale=scale, **how).to(result.dtype))
        return result

    def __repr__(self):
        return (f"{type(self).__name__}(featmap_names={self.featmap_names}, output_size={self.output_size}, "
                f"sampling_ratio={self.sampling_ratio})")
