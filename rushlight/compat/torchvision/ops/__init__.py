"""Layers and operators on boxes."""
from ...absent import absent
from .boxes import (batched_nms, box_area, box_convert, box_iou, clip_boxes_to_image, generalized_box_iou, masks_to_boxes, nms, remove_small_boxes)
from .deformable import DeformConv2d, deform_conv2d
from .focal import sigmoid_focal_loss
from .misc import MLP, Conv2dNormActivation, Conv3dNormActivation, ConvNormActivation, FrozenBatchNorm2d, Permute, SqueezeExcitation
from .regions import PSRoIAlign, PSRoIPool, RoIAlign, RoIPool, ps_roi_align, ps_roi_pool, roi_align, roi_pool
from .stochastic_depth import DropBlock2d, StochasticDepth, drop_block2d, stochastic_depth

__all__ = ["MLP", "Conv2dNormActivation", "Conv3dNormActivation", "ConvNormActivation", "DeformConv2d", "DropBlock2d", "FrozenBatchNorm2d", "PSRoIAlign", "PSRoIPool", "Permute", "RoIAlign", "RoIPool",
           "SqueezeExcitation", "StochasticDepth", "batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "deform_conv2d", "drop_block2d", "generalized_box_iou",
           "masks_to_boxes", "nms", "ps_roi_align", "ps_roi_pool", "remove_small_boxes", "roi_align", "roi_pool", "sigmoid_focal_loss", "stochastic_depth"]
globals().update(absent("torchvision.ops", "it is not part of the stand-in", "MultiScaleRoIAlign FeaturePyramidNetwork"))
