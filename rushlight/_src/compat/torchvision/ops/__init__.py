"""Layers and operators on boxes."""
from .boxes import (batched_nms, box_area, box_convert, box_iou, clip_boxes_to_image, generalized_box_iou,
                    masks_to_boxes, nms, remove_small_boxes)
from .deformable import DeformConv2d, deform_conv2d
from .distances import (complete_box_iou, complete_box_iou_loss, distance_box_iou, distance_box_iou_loss,
                        generalized_box_iou_loss)
from .feature_pyramid_network import FeaturePyramidNetwork, MultiScaleRoIAlign
from .focal import sigmoid_focal_loss
from .misc import (MLP, Conv2dNormActivation, Conv3dNormActivation, ConvNormActivation, FrozenBatchNorm2d, Permute,
                   SqueezeExcitation)
from .regions import PSRoIAlign, PSRoIPool, RoIAlign, RoIPool, ps_roi_align, ps_roi_pool, roi_align, roi_pool
from .stochastic_depth import DropBlock2d, DropBlock3d, StochasticDepth, drop_block2d, drop_block3d, stochastic_depth

__all__ = ["Conv2dNormActivation", "Conv3dNormActivation", "ConvNormActivation", "DeformConv2d", "DropBlock2d",
           "DropBlock3d", "FeaturePyramidNetwork", "FrozenBatchNorm2d", "MLP", "MultiScaleRoIAlign", "PSRoIAlign",
           "PSRoIPool", "Permute", "RoIAlign", "RoIPool", "SqueezeExcitation", "StochasticDepth", "batched_nms",
           "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou", "complete_box_iou_loss",
           "deform_conv2d", "distance_box_iou", "distance_box_iou_loss", "drop_block2d", "drop_block3d",
           "generalized_box_iou", "generalized_box_iou_loss", "masks_to_boxes", "nms", "ps_roi_align", "ps_roi_pool",
           "remove_small_boxes", "roi_align", "roi_pool", "sigmoid_focal_loss", "stochastic_depth"]
