"""Helpers around modules."""
from . import rnn
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "parameters_to_vector", "rnn", "vector_to_parameters",
           "parametrize", "parametrizations", "prune", "fusion", "stateless", "weight_norm", "remove_weight_norm", "spectral_norm", "remove_spectral_norm", "skip_init",
           "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights", "convert_conv2d_weight_memory_format",
           "convert_conv3d_weight_memory_format"]
LATER = {"weight_norm": "weight_norm", "remove_weight_norm": "weight_norm", "spectral_norm": "spectral_norm", "remove_spectral_norm": "spectral_norm", "skip_init": "init",
         "convert_conv2d_weight_memory_format": "memory_format", "convert_conv3d_weight_memory_format": "memory_format",
         **dict.fromkeys(("fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"), "fusion")}


def __getattr__(name):
    """What few programs need is imported when it is first asked for."""
    from importlib import import_module

    if name in ("parametrize", "parametrizations", "prune", "fusion", "stateless", "memory_format", "init"):
        return import_module(f".{name}", __name__)
    if name in LATER:
        found = globals()[name] = getattr(import_module(f".{LATER[name]}", __name__), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
