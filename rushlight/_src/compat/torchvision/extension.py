"""The operators of torchvision's extension, for an installed torchvision whose Python code runs here.

The finder gives this module as ``torchvision.extension``, and as the modules that register rules for compiled
operators: Rushlight's are composed of its own operators, and need none.
"""
from __future__ import annotations

from rushlight.library import define, impl

from . import io
from .ops import boxes, deformable, regions

REGION = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
DEFORMED = ("Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
            "SymInt pad_h, SymInt pad_w, "
            "SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask")


def _has_ops() -> bool:
    return True


def _assert_has_ops():
    """Do nothing: the operators exist."""


def _check_cuda_version() -> int:
    return -1


def _load_library(name) -> bool:
    """True if operators of this name exist here: those of regions and of images do."""
    return name in ("_C", "_C_stable", "image")


def _register_custom_op():
    """Do nothing: ONNX files are written from primitives."""


def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    return regions.roi_align(input, rois, (pooled_height, pooled_width), spatial_scale, sampling_ratio, aligned)


def roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    return regions.pooled(input, regions.with_batch(rois), (pooled_height, pooled_width), spatial_scale)


def owners(input, rois, height, width):
    """Channel from which each element of the result was read: int32 [regions, c, height, width]."""
    own = regions.position_channels(input, (height, width)).permute(2, 0, 1)
    return own.expand(len(rois), *own.shape).int()


def ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    found = regions.ps_roi_align(input, rois, (pooled_height, pooled_width), spatial_scale, sampling_ratio)
    return found, owners(input, rois, pooled_height, pooled_width)


def ps_roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    found = regions.ps_roi_pool(input, rois, (pooled_height, pooled_width), spatial_scale)
    return found, owners(input, rois, pooled_height, pooled_width)


def deform_conv2d(input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups,
                  offset_groups, use_mask):
    return deformable.deform_conv2d(input, offset, weight, bias, (stride_h, stride_w), (pad_h, pad_w),
                                    (dilation_h, dilation_w), mask if use_mask else None)


OPERATORS = {
    "nms": ("(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", boxes.nms),
    "roi_align": (f"({REGION}, int sampling_ratio, bool aligned) -> Tensor", roi_align),
    "roi_pool": (f"({REGION}) -> (Tensor, Tensor)", roi_pool),
    "ps_roi_align": (f"({REGION}, int sampling_ratio) -> (Tensor, Tensor)", ps_roi_align),
    "ps_roi_pool": (f"({REGION}) -> (Tensor, Tensor)", ps_roi_pool),
    "deform_conv2d": (f"({DEFORMED}) -> Tensor", deform_conv2d), "_cuda_version": ("() -> int", _check_cuda_version)}
DECODE = "(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor"
IMAGES = {
    "read_file": ("(str filename) -> Tensor", io.read_file),
    "write_file": ("(str filename, Tensor data) -> ()", io.write_file),
    "decode_png": (DECODE, io.decode_image), "decode_jpeg": (DECODE, io.decode_image),
    "decode_image": (DECODE, io.decode_image),
    "decode_webp": ("(Tensor data, int mode) -> Tensor", io.decode_image),
    "decode_gif": ("(Tensor data) -> Tensor", io.decode_image),
    "encode_png": ("(Tensor data, int compression_level) -> Tensor", io.encode_png),
    "encode_jpeg": ("(Tensor data, int quality) -> Tensor", io.encode_jpeg)}

for _namespace, _operators in (("torchvision", OPERATORS), ("image", IMAGES)):
    for _name, (_schema, _function) in _operators.items():
        define(f"{_namespace}::{_name}", _schema)
        impl(f"{_namespace}::{_name}", "CompositeImplicitAutograd", _function)
