"""Another shape for the same elements, as a function with a gradient of its own."""
from __future__ import annotations

from .function import Function


class Resize(Function):
    """``Resize.apply(tensor, sizes)``: a tensor with the same elements.  RuntimeError for another number of them."""

    @staticmethod
    def forward(ctx, tensor, sizes):
        wanted = 1
        for size in sizes:
            wanted *= size
        if wanted != tensor.numel():
            raise RuntimeError(
                f"requested resize to {list(sizes)} ({wanted} elements), but the tensor of shape {list(tensor.shape)} "
                f"has {tensor.numel()}")
        ctx.shape = tensor.shape
        return tensor.reshape(sizes)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.reshape(ctx.shape), None
