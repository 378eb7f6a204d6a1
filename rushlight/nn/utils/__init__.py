"""Helpers around modules."""
from ..._src.core.later import later
from . import rnn  # noqa: F401
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters  # noqa: F401

__getattr__ = later(__name__, {
    "weight_norm": ("weight_norm", "remove_weight_norm"), "spectral_norm": ("spectral_norm", "remove_spectral_norm"),
    "init": ("skip_init",),
    "memory_format": ("convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"),
    "fusion": ("fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"),
})
