"""Convolution weights in another order of dimensions in memory."""
from __future__ import annotations

import rushlight as torch

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def converted(module, memory_format, kinds):
    if isinstance(module, kinds):
        module.weight.data = module.weight.detach().clone().contiguous(memory_format=memory_format)
    for child in module.children():
        converted(child, memory_format, kinds)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """Gives the weights of 2-dimensional convolutions within a module a memory format."""
    return converted(module, memory_format, (torch.nn.Conv2d, torch.nn.ConvTranspose2d))


def convert_conv3d_weight_memory_format(module, memory_format):
    """Gives the weights of 3-dimensional convolutions within a module a memory format."""
    return converted(module, memory_format, (torch.nn.Conv3d, torch.nn.ConvTranspose3d))
