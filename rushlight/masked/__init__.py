"""Reductions under a mask, and tensors that have a mask, by PyTorch's names."""
from __future__ import annotations

from .._src.core.later import later
from .._src.ops import library

OPERATORS = library.namespace("masked")
globals().update(OPERATORS)

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor", *OPERATORS]
__getattr__ = later(__name__, {
    "tensor": ("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"),
    "masks": ("_canonical_dim", "_combine_input_and_mask", "_input_mask", "_output_mask", "_reduction_identity",
              "_where")})
