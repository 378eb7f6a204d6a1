"""Layers and operators on boxes."""
from ...absent import absent
from .boxes import (batched_nms, box_area, box_convert, box_iou, clip_boxes_to_image, generalized_box_iou, masks_to_boxes, nms, remove_small_boxes)
from .focal import sigmoid_focal_loss
from .misc import MLP, Conv2dNormActivation, Conv3dNormActivation, ConvNormActivation, FrozenBatchNorm2d, Permute, SqueezeExcitation
from .regions import RoIAlign, RoIPool, roi_align, roi_pool
from .stochastic_depth import DropBlock2d, StochasticDepth, drop_block2d, stochastic_depth

__all__ = ["MLP", "Conv2dNormActivation", "Conv3dNormActivation", "ConvNormActivation", "DropBlock2d", "FrozenBatchNorm2d", "Permute", "RoIAlign", "RoIPool",
           "SqueezeExcitation", "StochasticDepth", "batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "drop_block2d", "generalized_box_iou",
           "masks_to_boxes", "nms", "remove_small_boxes", "roi_align", "roi_pool", "sigmoid_focal_loss", "stochastic_depth"]
globals().update(absent("torchvision.ops", "it is not part of the stand-in", "deform_conv2d DeformConv2d ps_roi_align PSRoIAlign ps_roi_pool PSRoIPool MultiScaleRoIAlign "
                        "FeaturePyramidNetwork"))
