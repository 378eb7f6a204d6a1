"""Visualization of tensors: grids of images, and boxes, masks, keypoints and flows drawn into them."""
from .drawing import draw_bounding_boxes, draw_keypoints, draw_segmentation_masks
from .flows import flow_to_image
from .grids import make_grid, save_image

__all__ = ["draw_bounding_boxes", "draw_keypoints", "draw_segmentation_masks", "flow_to_image", "make_grid",
           "save_image"]
