"""The contents of uninitialized memory: unspecified, or one value if results must be deterministic."""
from __future__ import annotations

import numpy as np

from .dtypes import BOOL, INTEGER
from .native import Tensor
from .op import OPS


class Level:
    """The determinism level, as a position in ``determinism.LEVELS``; ``fills``: True if uninitialized memory is filled
    then."""

    now, fills = 0, True


def settled(tensor: Tensor, begin: int = 0) -> Tensor:
    """A fresh tensor. If results must be deterministic, its elements (those after the first ``begin`` of a row-major
    one) are NaN, or the largest number of a dtype without NaN."""
    if Level.now and Level.fills and tensor._rush_meta.numel > begin and tensor._rush_meta.device.provider.has_data \
            and not tensor.is_quantized:
        part = tensor if not begin else OPS["as_strided"](tensor, (tensor._rush_meta.numel - begin,), (1,),
                                                          tensor._rush_offset + begin)
        OPS["fill_"](part, largest(tensor._rush_meta.dtype))
    return tensor


def largest(dtype):
    """NaN, or the largest number of a dtype without it."""
    if dtype.category > INTEGER:
        return float("nan")
    return True if dtype.category == BOOL else int(np.iinfo(dtype.numpy).max)
