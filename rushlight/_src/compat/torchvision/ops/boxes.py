"""Boxes [n, 4] as left, top, right, bottom."""
from __future__ import annotations

import numpy as np

import rushlight as torch

__all__ = ["batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "generalized_box_iou",
           "masks_to_boxes", "nms", "remove_small_boxes"]


def box_area(boxes):
    """[n, 4] -> [n]."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def overlap(a, b):
    """Areas of intersection and of union of every pair: [n, m] both."""
    corner = torch.max(a[:, None, :2], b[:, :2])
    other = torch.min(a[:, None, 2:], b[:, 2:])
    sides = (other - corner).clamp(min=0)
    inter = sides[:, :, 0] * sides[:, :, 1]
    return inter, box_area(a)[:, None] + box_area(b) - inter


def box_iou(boxes1, boxes2):
    """Intersection over union of every pair: [n, m]."""
    inter, union = overlap(boxes1, boxes2)
    return inter / union


def generalized_box_iou(boxes1, boxes2):
    """Intersection over union, less the part of the hull that neither covers (Rezatofighi et al. 2019)."""
    inter, union = overlap(boxes1, boxes2)
    sides = (torch.max(boxes1[:, None, 2:], boxes2[:, 2:]) - torch.min(boxes1[:, None, :2], boxes2[:, :2])).clamp(min=0)
    hull = sides[:, :, 0] * sides[:, :, 1]
    return inter / union - (hull - union) / hull


def nms(boxes, scores, iou_threshold):
    """Non-maximum suppression: indices of the remaining boxes, best first, after removing those that overlap a better
    one by more than the threshold.

    RuntimeError where boxes are not [n, 4], or scores not [n].
    """
    if boxes.dim() != 2 or boxes.shape[1] != 4 or scores.dim() != 1 or len(scores) != len(boxes):
        raise RuntimeError(f"nms takes boxes [n, 4] and scores [n], got {tuple(boxes.shape)} and {tuple(scores.shape)}")
    order = scores.detach().argsort(descending=True, stable=True).numpy()
    left, top, right, bottom = boxes.detach()[order].float().numpy().T
    areas, kept, rest = (right - left) * (bottom - top), [], np.arange(len(order))
    with np.errstate(all="ignore"):  # boxes without area
        while len(rest):
            best, rest = rest[0], rest[1:]
            kept.append(order[best])
            wide = np.minimum(right[best], right[rest]) - np.maximum(left[best], left[rest])
            high = np.minimum(bottom[best], bottom[rest]) - np.maximum(top[best], top[rest])
            shared = np.maximum(wide, 0) * np.maximum(high, 0)
            rest = rest[~(shared / (areas[best] + areas[rest] - shared) > iou_threshold)]
    return torch.tensor(np.asarray(kept, np.int64))


def batched_nms(boxes, scores, idxs, iou_threshold):
    """``nms`` within each class."""
    if boxes.numel() == 0:
        return torch.empty((0,), dtype=torch.int64)
    offsets = idxs.to(boxes) * (boxes.max() + 1)
    return nms(boxes + offsets[:, None], scores, iou_threshold)


def remove_small_boxes(boxes, min_size):
    """Indices of the boxes whose sides are at least ``min_size``."""
    return ((boxes[:, 2] - boxes[:, 0] >= min_size) & (boxes[:, 3] - boxes[:, 1] >= min_size)).nonzero().squeeze(1)


def clip_boxes_to_image(boxes, size):
    """Boxes within an image of (height, width)."""
    height, width = size
    x, y = boxes[..., 0::2].clamp(min=0, max=width), boxes[..., 1::2].clamp(min=0, max=height)
    return torch.stack((x, y), dim=boxes.dim()).reshape(boxes.shape)


def box_convert(boxes, in_fmt, out_fmt):
    """Convert between xyxy, xywh (corner and size) and cxcywh (center and size).  ValueError for other formats."""
    for fmt in (in_fmt, out_fmt):
        if fmt not in ("xyxy", "xywh", "cxcywh"):
            raise ValueError(f"Unsupported Bounding Box Conversion format {fmt}: choose xyxy, xywh or cxcywh")
    a, b, c, d = boxes.unbind(-1)
    if in_fmt == "xywh":
        c, d = a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d
    if out_fmt == "xywh":
        c, d = c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return torch.stack((a, b, c, d), dim=-1)


def masks_to_boxes(masks):
    """The boxes around masks [n, h, w]."""
    if masks.numel() == 0:
        return torch.zeros((0, 4))
    boxes = []
    for mask in masks:
        y, x = torch.where(mask != 0)
        boxes.append([int(x.min()), int(y.min()), int(x.max()), int(y.max())])
    return torch.tensor(boxes, dtype=torch.float32)
