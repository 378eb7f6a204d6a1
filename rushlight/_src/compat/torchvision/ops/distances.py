"""Distances of boxes (Rezatofighi et al. 2019; Zheng et al. 2020), between all pairs and as losses of corresponding
boxes."""
from __future__ import annotations

import math

import rushlight as torch

__all__ = ["complete_box_iou", "complete_box_iou_loss", "distance_box_iou", "distance_box_iou_loss",
           "generalized_box_iou_loss"]


def floats(boxes):
    return boxes if boxes.is_floating_point() else boxes.float()


class Pairs:
    """Pairs of boxes [..., 4] with broadcast shapes: their intersection, hull, and the distance of their centers."""

    def __init__(self, a, b):
        self.a, self.b = floats(a), floats(b)
        inner = (torch.min(self.a[..., 2:], self.b[..., 2:]) - torch.max(self.a[..., :2], self.b[..., :2])).clamp(min=0)
        self.hull = torch.max(self.a[..., 2:], self.b[..., 2:]) - torch.min(self.a[..., :2], self.b[..., :2])
        self.inter = inner.prod(-1)
        self.union = self.sides(self.a).prod(-1) + self.sides(self.b).prod(-1) - self.inter

    @staticmethod
    def sides(boxes):
        return boxes[..., 2:] - boxes[..., :2]

    def apart(self, eps):
        """Squared distance of the centers relative to the hull's squared diagonal."""
        centres = [(boxes[..., :2] + boxes[..., 2:]) / 2 for boxes in (self.a, self.b)]
        return (centres[0] - centres[1]).square().sum(-1) / (self.hull.square().sum(-1) + eps)

    def shapes(self, iou, eps):
        """Penalty for different aspect ratios; its weight is a constant for gradients."""
        ratios = [torch.atan(self.sides(boxes)[..., 0] / self.sides(boxes)[..., 1]) for boxes in (self.a, self.b)]
        v = 4 / math.pi**2 * (ratios[1] - ratios[0]).square()
        with torch.no_grad():
            alpha = v / (1 - iou + v + eps)
        return alpha * v


def distance_box_iou(boxes1, boxes2, eps=1e-7):
    """Intersection over union less the distance of centers, of every pair of [n, 4] and [m, 4]: [n, m]."""
    pairs = Pairs(boxes1[..., :, None, :], boxes2[..., None, :, :])
    return pairs.inter / pairs.union - pairs.apart(eps)


def complete_box_iou(boxes1, boxes2, eps=1e-7):
    """``distance_box_iou`` less the difference of shapes: [n, m].

    >>> import rushlight as torch
    >>> complete_box_iou(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[0.0, 0, 2, 2]])).tolist()
    [[1.0]]
    """
    pairs = Pairs(boxes1[..., :, None, :], boxes2[..., None, :, :])
    iou = pairs.inter / pairs.union
    return iou - pairs.apart(eps) - pairs.shapes(iou, eps)


def reduced(loss, reduction):
    """Reduce a loss; the mean of no elements is 0.  ValueError for reductions other than none, mean and sum."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(
            f"Invalid Value for arg 'reduction': '{reduction} \n Supported reduction modes: 'none', 'mean', 'sum'")
    if reduction == "mean":
        return loss.mean() if loss.numel() else 0.0 * loss.sum()
    return loss.sum() if reduction == "sum" else loss


def generalized_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    """1 less the generalized intersection over union of corresponding boxes [n, 4]: [n], or its mean or sum.
    ValueError for another reduction."""
    pairs = Pairs(boxes1, boxes2)
    hull = pairs.hull.prod(-1)
    return reduced(1 - pairs.inter / (pairs.union + eps) + (hull - pairs.union) / (hull + eps), reduction)


def distance_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    """1 less the distance intersection over union; other arguments as in ``generalized_box_iou_loss``."""
    pairs = Pairs(boxes1, boxes2)
    return reduced(1 - pairs.inter / (pairs.union + eps) + pairs.apart(eps), reduction)


def complete_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    """1 less the complete intersection over union; other arguments as in ``generalized_box_iou_loss``."""
    pairs = Pairs(boxes1, boxes2)
    iou = pairs.inter / (pairs.union + eps)
    return reduced(1 - iou + pairs.apart(eps) + pairs.shapes(iou, eps), reduction)
