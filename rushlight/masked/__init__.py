"""Reductions under a mask, and tensors that have a mask, by PyTorch's names."""
from __future__ import annotations

from ..ops import library

globals().update(library.namespace("masked"))

from .tensor import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor  # noqa: E402

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor", *library.namespace("masked")]
