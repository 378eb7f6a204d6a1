"""``torch.nn.grad``: the gradients of convolutions, as functions."""
from __future__ import annotations

from ..autograd import grad
from .._src.autograd.mode import enable_grad
from .._src.core.op import OPS
from . import functional as F


def gradient(rank: int, which: int, doc: str):
    """Return the gradient of a convolution of this many dimensions by its input (0) or its weight (1)."""
    convolution = getattr(F, f"conv{rank}d")

    def computed(size, other, grad_output, stride, padding, dilation, groups):
        unknown = OPS["zeros"](tuple(size), dtype=other.dtype, device=other.device).requires_grad_()
        with enable_grad():
            out = convolution(*((unknown, other) if which == 0 else (other, unknown)), None, stride, padding, dilation,
                              groups)
            return grad(out, unknown, grad_output, create_graph=other.requires_grad or grad_output.requires_grad)[0]

    def of_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
        return computed(input_size, weight, grad_output, stride, padding, dilation, groups)

    def of_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
        return computed(weight_size, input, grad_output, stride, padding, dilation, groups)

    call = (of_input, of_weight)[which]
    call.__name__ = call.__qualname__ = f"conv{rank}d_{('input', 'weight')[which]}"
    call.__doc__ = doc
    return call


conv1d_input, conv2d_input, conv3d_input = (
    gradient(rank, 0, "The gradient of a convolution by its input: (input_size, weight, grad_output, ...).")
    for rank in (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = (
    gradient(rank, 1, "The gradient of a convolution by its weight: (input, weight_size, grad_output, ...).")
    for rank in (1, 2, 3))
