"""What memory holds that was made without contents: whatever lay there, or one value where results are to be the same
every time."""
from __future__ import annotations

import numpy as np

from .dtypes import BOOL, INTEGER
from .native import Tensor
from .op import OPS


class Level:
    """How results are to be the same every time, as a position in ``determinism.LEVELS``, and whether memory without
    contents is filled then."""

    now, fills = 0, True


def settled(tensor: Tensor, begin: int = 0) -> Tensor:
    """A fresh tensor.  Where results are to be the same every time, its elements (those behind the first ``begin`` of a
    row-major one) are NaN, or the largest number of a dtype that has none."""
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
